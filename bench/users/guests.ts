import { type Question, send } from "../agreement.ts";
import type { Case, HttpRequest } from "../case.ts";
import { type Contestant, contestantOf } from "../rounds.ts";
import type { RunningServer } from "../servers.ts";
import type { UserCase, Words } from "./cases.ts";
import type { Entry } from "./programs.ts";

/** A contestant and the cases as its server is asked them. */
export type Guest = Contestant & { readonly server: RunningServer; readonly own: ReadonlyMap<string, Case> };

/** Asks the server for the tags that the cases send back. Several guests may share one server. */
export async function guestOf(
  { name, words }: Entry,
  server: RunningServer,
  cases: readonly UserCase[],
): Promise<Guest> {
  const all = words();
  const own = new Map<string, Case>();
  for (const each of cases) {
    const requests = await requestsOf(each, all, server);
    if (requests !== null) own.set(each.name, { ...each, requests: () => requests });
  }
  const contestant = contestantOf(server);
  return {
    ...contestant,
    name,
    server,
    own,
    takes: (asked) => own.has(asked.name),
    apply: (asked, load, signal) => contestant.apply(own.get(asked.name)!, load, signal),
  };
}

/** Null where the server can't be asked. */
async function requestsOf({ name, repeats }: UserCase, words: Words, server: RunningServer) {
  const asked = words[repeats ?? name];
  if (asked === undefined || repeats === null) return asked?.slice() ?? null;
  const conditional: HttpRequest[] = [];
  for (const request of asked) {
    const headers = { ...request.headers, "If-None-Match": await tagOf(request, server) };
    conditional.push({ ...request, headers });
  }
  return conditional;
}

async function tagOf(request: HttpRequest, server: RunningServer): Promise<string> {
  const { head, body } = await send(request, server);
  const tag = /\r\netag: *(.*)/i.exec(head)?.[1];
  if (tag !== undefined) return tag;
  throw new Error(`an answer of "${server.name}" without a tag: ${head}\n${body}`);
}

/** The case in the words of each guest that takes it. */
export const questionsOf = (guests: readonly Guest[], { name }: UserCase): Question[] =>
  guests.flatMap(({ server, own }) => {
    const asked = own.get(name);
    return asked ? [{ server, asked }] : [];
  });
