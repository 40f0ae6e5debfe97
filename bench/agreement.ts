import { isDeepStrictEqual } from "node:util";
import { bodyOf, type Operation } from "./operations.ts";
import type { RunningServer } from "./servers.ts";

/** Sends one request; throws unless the answer is 200 and free of errors. */
export async function ask(
  { url, contestant }: RunningServer,
  operation: Operation,
  token: string,
  n = 0,
): Promise<unknown> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json", authorization: `Bearer ${token}` },
    body: bodyOf(operation, n),
  });
  const text = await response.text();
  const answer = response.ok ? JSON.parse(text) : null;
  if (!answer || answer.errors) throw new Error(`${contestant.name}, ${operation.name}: ${response.status} ${text}`);
  return answer;
}

/** Throws unless all servers answer alike: reads the same JSON, mutations the same but for the ids they are given. */
export async function assertAgreement(
  servers: readonly RunningServer[],
  operation: Operation,
  token: string,
): Promise<void> {
  const answers = await Promise.all(servers.map((server) => ask(server, operation, token, 7)));
  const compared = operation.isMutation ? answers.map(withoutIds) : answers;
  for (const [i, answer] of compared.entries()) {
    if (isDeepStrictEqual(answer, compared[0])) continue;
    throw new Error(
      `${operation.name}: the servers do not agree\n` +
        `${servers[0]!.contestant.name}: ${JSON.stringify(compared[0])}\n` +
        `${servers[i]!.contestant.name}: ${JSON.stringify(answer)}`,
    );
  }
}

const withoutIds = (answer: unknown): unknown =>
  JSON.parse(JSON.stringify(answer), (key, value) => (key === "id" ? typeof value : value));
