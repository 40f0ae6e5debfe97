import { ask } from "../agreement.ts";
import type { BenchDatabase } from "../database.ts";
import { type Message, startProxy } from "../proxy.ts";
import { type Program, startServer } from "../servers.ts";
import type { RestCase } from "./cases.ts";

/** A statement as the server sent it. */
export type SentStatement = { readonly text: string; readonly values: readonly (string | null)[] };

/** The statements that a server sends to Postgres for one request: session settings and a query. */
export type Exported = {
  readonly case: RestCase;
  readonly statements: readonly SentStatement[];
  /** The number in the request, as the values have it. */
  readonly key: string;
};

/** Looks like no other number of a request. */
const KEY = 4711;

/** Starts the server behind a proxy that records its statements, and sends one request for each case. */
export async function exportStatements(
  program: Program,
  database: BenchDatabase,
  cases: readonly RestCase[],
): Promise<Exported[]> {
  let last: readonly SentStatement[] = [];
  await using proxy = await startProxy(database, () =>
    statementReader((statements) => {
      // Session settings and a query. A single statement is not part of a request.
      if (statements.length > 1) last = statements;
    }),
  );
  await using server = await startServer(program, proxy.database);
  const exported: Exported[] = [];
  for (const each of cases) {
    await ask(server, { ...each, requests: () => [each.request(KEY)] }, 0);
    exported.push({ case: each, statements: last, key: String(KEY) });
  }
  await database.removeWritten();
  return exported;
}

/** Reports the statements before each Sync of one connection. Source: PostgreSQL docs, "Message Formats". */
function statementReader(tell: (statements: readonly SentStatement[]) => void): (messages: readonly Message[]) => void {
  const texts = new Map<string, string>();
  let statements: SentStatement[] = [];
  const read = ({ type, content }: Message) => {
    if (type === "P") {
      const [name, text] = cstrings(content, 2);
      texts.set(name!, text!);
    } else if (type === "B") {
      const [portal, name] = cstrings(content, 2);
      const start = Buffer.byteLength(portal! + name!) + 2;
      statements.push({ text: texts.get(name!)!, values: valuesIn(content, start) });
    } else if (type === "S") {
      tell(statements);
      statements = [];
    }
  };
  return (messages) => messages.forEach(read);
}

/** The first texts of a message, each of which ends in a zero. */
const cstrings = (content: Buffer, count: number): string[] => content.toString().split("\0", count);

/** The values of Bind: a list of formats, then the values with their lengths, of which -1 is null. */
function valuesIn(content: Buffer, start: number): (string | null)[] {
  let at = start + 2 + 2 * content.readInt16BE(start);
  const count = content.readInt16BE(at);
  at += 2;
  return Array.from({ length: count }, () => {
    const length = content.readInt32BE(at);
    at += 4;
    if (length === -1) return null;
    at += length;
    return content.toString("utf8", at - length, at);
  });
}
