import { once } from "node:events";
import { connect } from "node:net";
import { isDeepStrictEqual } from "node:util";
import type { Case, HttpRequest } from "./case.ts";
import { AnswerReader, bytesOf, type HttpAnswer } from "./http-messages.ts";
import type { RunningServer } from "./servers.ts";

/** The JSON of the answer to the n-th request of a case; throws unless it is a good one. */
export async function ask(server: RunningServer, asked: Case, n: number): Promise<unknown> {
  const requests = asked.requests();
  const { status, body } = await send(requests[n % requests.length]!, server);
  const isGood = status >= 200 && status < 300 && !asked.refused.some((text) => body.includes(text));
  if (isGood) return JSON.parse(body);
  throw new Error(`${server.name}, ${asked.name}: ${status} ${body.slice(0, 1000)}\n${server.lastWords()}`);
}

/** The same bytes that the load tool sends. */
async function send(request: HttpRequest, { name, address, lastWords }: RunningServer): Promise<HttpAnswer> {
  const { hostname, port } = new URL(address);
  const socket = connect({ host: hostname, port: Number(port) });
  try {
    await once(socket, "connect");
    socket.write(bytesOf(request, address));
    const reader = new AnswerReader(Number.POSITIVE_INFINITY);
    for await (const bytes of socket) {
      const answer = reader.read(bytes as Buffer);
      if (answer !== null) return answer;
    }
    throw new Error(`the server "${name}" has hung up: ${lastWords()}`);
  } finally {
    socket.destroy();
  }
}

/** Throws unless all servers answer alike, but for the fields that each gives a value of its own. */
export async function assertAgreement(servers: readonly RunningServer[], asked: Case): Promise<void> {
  const answers = await Promise.all(servers.map((server) => ask(server, asked, 7)));
  const [first, ...others] = answers.map((answer) => withoutOwn(answer, asked.ownFields));
  for (const [i, other] of others.entries()) {
    if (isDeepStrictEqual(first, other)) continue;
    throw new Error(
      `${asked.name}: the servers do not agree\n` +
        `${servers[0]!.name}: ${shown(first)}\n${servers[i + 1]!.name}: ${shown(other)}`,
    );
  }
}

const shown = (answer: unknown) => JSON.stringify(answer).slice(0, 2000);

/** `{ id: 7, title: "…" }` → `{ id: "number", title: "…" }` */
const withoutOwn = (answer: unknown, ownFields: readonly string[]): unknown =>
  JSON.parse(JSON.stringify(answer), (key, value) => (ownFields.includes(key) ? typeof value : value));
