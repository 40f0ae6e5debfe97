import type { Case, HttpRequest } from "../case.ts";
import { ANON_KEY, bearer } from "../credentials.ts";
import { USERS } from "../database.ts";
import { SERIAL } from "../http-messages.ts";

/** A case. `repeats` names the case whose responses the client has cached: the request sends their ETags, which differ by server. */
export type UserCase = Case & { readonly repeats: string | null };

/** The requests of each case by its name, as one server understands them. Cases that it does not support are missing. */
export type CaseRequests = Readonly<Record<string, readonly HttpRequest[]>>;

const CREATED = ["id", "email", "created_at", "updated_at"];

const reading = (name: string, about: string): UserCase => ({
  name,
  about,
  writes: false,
  ownFields: [],
  refused: [],
  repeats: null,
  requests: () => resourceRequests()[name]!.slice(),
});
const writing = (name: string, about: string, ownFields: readonly string[]): UserCase => ({
  ...reading(name, about),
  writes: true,
  ownFields,
});
const repeating = (repeats: string, about: string): UserCase => ({
  ...reading(`${repeats}, 304`, about),
  status: 304,
  repeats,
});

export const CASES: readonly UserCase[] = [
  reading("record", "a user by id"),
  reading("list", "the first ten users and the total count"),
  writing("create", "a user signs up", CREATED),
  writing("update", "a user changes their age", ["updated_at"]),
  repeating("record", "the same with If-None-Match, for an unchanged record"),
  repeating("list", "the same with If-None-Match"),
];

const headersOf = (user: number) => ({
  Accept: "application/json",
  apikey: ANON_KEY,
  Authorization: bearer(user),
});

const NEW_USER = JSON.stringify({ name: "A new user", email: `user.${SERIAL}@example.com`, age: 42 });
/** The age that the user already has, so that only `updated_at` changes. */
const ageOf = (user: number) => JSON.stringify({ age: 18 + (user % 60) });

const REQUESTS = 500;
/** Prime to the number of users. */
const STEP = 7919;
const some = <T>(make: (n: number) => T): T[] => Array.from({ length: REQUESTS }, (_, n) => make(n));

/** The id of a user to read. The first half of the users is never written, so their ETags stay the same. */
const reader = (n: number) => 1 + ((n * STEP) % (USERS / 2));
const writer = (n: number) => USERS / 2 + reader(n);

const read = (path: string): HttpRequest => ({ method: "GET", path, headers: headersOf(1), body: null });

/** `/users`, which our peers serve under the same addresses. */
export const resourceRequests = (): CaseRequests => ({
  record: some((n) => read(`/users/${reader(n)}`)),
  list: [read("/users")],
  create: [{ method: "POST", path: "/users", headers: headersOf(1), body: NEW_USER }],
  update: some((n) => {
    const user = writer(n);
    return { method: "PATCH", path: `/users/${user}`, headers: headersOf(user), body: ageOf(user) };
  }),
});

const COLUMNS = "select=id,name,email,age,created_at,updated_at";
const asOne = { Accept: "application/vnd.pgrst.object+json" };
const returning = { Prefer: "return=representation" };
const rows = (more: string) => `/users?${COLUMNS}&${more}`;

/** The same of the table. */
export function tableRequests(): CaseRequests {
  const { record, create, update, list } = resourceRequests();
  const changed = ({ headers, ...request }: HttpRequest, path: string, more: HttpRequest["headers"]): HttpRequest => ({
    ...request,
    path,
    headers: { ...headers, ...more },
  });
  return {
    record: record!.map((request, n) => changed(request, rows(`id=eq.${reader(n)}`), asOne)),
    list: list!.map((request) => changed(request, rows("order=id&limit=10"), { Prefer: "count=exact" })),
    create: create!.map((request) => changed(request, `/users?${COLUMNS}`, { ...asOne, ...returning })),
    update: update!.map((request, n) => changed(request, rows(`id=eq.${writer(n)}`), { ...asOne, ...returning })),
  };
}

/** The list alone, without the total. */
export const uncountedRequests = (): CaseRequests => ({
  list: tableRequests().list!.map(({ headers: { Prefer: _, ...headers }, ...request }) => ({ ...request, headers })),
});
