import type { Case, HttpRequest } from "../case.ts";
import { ANON_KEY, bearer } from "../credentials.ts";
import { ARTICLES, USERS } from "../database.ts";

/** The functions that the cases call. */
export const FUNCTIONS = `
  create function public.add_them(a integer, b integer) returns integer
  language sql immutable parallel safe
  return a + b;

  create function public.add_with_state(a integer, b integer) returns integer
  language plpgsql volatile set search_path = '' as $$
  begin
    perform pg_catalog.set_config('bench.sum', (a + b)::text, false);
    return a + b;
  end $$;

  create function public.slow() returns integer
  language sql volatile set search_path = ''
  begin atomic
    select pg_catalog.pg_sleep(0.1);
    select 1;
  end;

  grant execute on function
    public.add_them(integer, integer), public.add_with_state(integer, integer), public.slow()
    to anon, authenticated;`;

/** A case whose requests differ in a number, from 1 to `keys`. */
export type RestCase = Case & {
  readonly keys: number;
  /** The request with this number. */
  request(key: number): HttpRequest;
  /** Whether all requests are one statement, as one caller: then pgbench can run it too. */
  readonly isOneStatement: boolean;
};

type Definition = {
  readonly name: string;
  readonly about: string;
  readonly method: HttpRequest["method"];
  path(key: number): string;
  readonly body?: unknown;
  readonly keys?: number;
  /** Users who send the requests in turn, so that no two requests in succession have one caller. Default: one. */
  readonly callers?: number;
  readonly writes?: boolean;
  readonly isSlow?: boolean;
  /** Of a request that is refused. */
  readonly status?: number;
  /** In place of those of the user, or beside them. */
  readonly headers?: HttpRequest["headers"];
  /** Replaces the n-th request. */
  instead?(request: HttpRequest, n: number): HttpRequest;
};

const row = (id: number) => `/articles?id=eq.${id}`;
const embed = (author: number, order: string) =>
  "/articles?select=id,title,author:users(id,name),comments(id,content,author_id)" +
  `&status=eq.PUBLISHED&author_id=gte.${author}&order=${order}.desc&comments.order=created_at.desc&limit=20`;
/** At least half of the authors have a greater id. */
const LEAST_AUTHORS = USERS / 2;

const LIST = "/articles?select=id,title,status,created_at&status=eq.PUBLISHED&order=created_at.desc&limit=20";
const ADD = { path: () => "/rpc/add_them", body: { a: 1, b: 2 } };

const GZIP = { "Accept-Encoding": "gzip" };
const CALLERS = 200;
const BULK_ROWS = 1000;
export const MANY_ROWS = 10_000;
const MANY = `/articles?order=id&limit=${MANY_ROWS}`;
const SLOW_SHARE = 100;

const DEFINITIONS: readonly Definition[] = [
  { name: "row", about: "an article by its key", method: "GET", path: row, keys: ARTICLES },
  {
    name: "list",
    about: "the 20 newest published articles",
    method: "GET",
    path: () => LIST,
  },
  {
    name: "list-gzip",
    about: "the same, compressed by the service and not by PostgREST",
    method: "GET",
    path: () => LIST,
    headers: GZIP,
  },
  {
    name: "embed",
    about: "the 20 newest of at least half of the authors, each with its author and comments",
    method: "GET",
    path: (author) => embed(author, "created_at"),
    keys: LEAST_AUTHORS,
  },
  {
    name: "embed-unindexed",
    about: "the same, ordered by title (no index)",
    method: "GET",
    path: (author) => embed(author, "title"),
    keys: LEAST_AUTHORS,
  },
  {
    name: "insert",
    about: "creates one comment and returns it",
    method: "POST",
    path: () => "/comments",
    body: { article_id: 1, content: "Rows written by the bench are deleted afterwards." },
    writes: true,
  },
  {
    name: "bulk",
    about: `creates ${BULK_ROWS} comments and returns them`,
    method: "POST",
    path: () => "/comments",
    body: Array.from({ length: BULK_ROWS }, (_, n) => ({ article_id: 1 + n, content: `Comment ${n} of many` })),
    writes: true,
    isSlow: true,
  },
  { name: "rpc", about: "calls a function that adds two numbers", method: "POST", ...ADD },
  {
    name: "row-callers",
    about: `an article by its key, by ${CALLERS} users in turn`,
    method: "GET",
    path: row,
    keys: ARTICLES,
    callers: CALLERS,
  },
  {
    name: "list-callers",
    about: `the 20 newest published articles, by ${CALLERS} users in turn`,
    method: "GET",
    path: () => LIST,
    callers: CALLERS,
  },
  {
    name: "rpc-callers",
    about: `calls a function that adds two numbers, by ${CALLERS} users in turn`,
    method: "POST",
    ...ADD,
    callers: CALLERS,
  },
  {
    name: "rpc-state",
    about: "calls a function that leaves a session setting, after which the connection is cleaned",
    method: "POST",
    path: () => "/rpc/add_with_state",
    body: { a: 1, b: 2 },
  },
  {
    name: "many",
    about: `${MANY_ROWS} articles, 4 MB`,
    method: "GET",
    path: () => MANY,
    isSlow: true,
  },
  {
    name: "many-gzip",
    about: "the same, compressed by the service and not by PostgREST",
    method: "GET",
    path: () => MANY,
    isSlow: true,
    headers: GZIP,
  },
  {
    name: "row-two-roles",
    about: "an article by its key, alternating between the roles anon and authenticated",
    method: "GET",
    path: row,
    keys: ARTICLES,
    instead: (request, n) => (n % 2 === 0 ? request : { ...request, headers: ANONYMOUS }),
  },
  {
    name: "row-beside-slow",
    about:
      "an article by its key, while 1 % of the requests call a function that takes 100 ms; p50 and p99 are those of the other requests",
    method: "GET",
    path: row,
    keys: ARTICLES,
    instead: (request, n) => (n % SLOW_SHARE === 0 ? { ...request, ...SLOW } : request),
  },
  {
    name: "refused-token",
    about: "an article with a token that is not valid: 401",
    method: "GET",
    path: row,
    status: 401,
    headers: { Authorization: "Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl" },
  },
  { name: "refused-path", about: "a path that does not exist: 404", method: "GET", path: () => "/a/b", status: 404 },
  {
    name: "refused-table",
    about: "a table that does not exist: 404",
    method: "GET",
    path: () => "/no_such_table",
    status: 404,
  },
  {
    name: "refused-method",
    about: "a method that does not exist: 405",
    method: "PURGE",
    path: () => "/articles",
    status: 405,
  },
];

const ANONYMOUS = { Accept: "application/json", apikey: ANON_KEY };
const SLOW = { method: "POST", path: "/rpc/slow", body: "{}", isBackground: true } as const;

const MAX_REQUESTS = 1000;
/** Coprime to all numbers of keys, so that no key repeats before all were used. */
const STEP = 7919;

export const CASES: readonly RestCase[] = DEFINITIONS.map((definition) => {
  const { name, about, keys = 1, callers = 1, writes = false, isSlow = false } = definition;
  const { instead = (request) => request, status, headers: own } = definition;
  return {
    name,
    about,
    writes,
    ownFields: writes ? ["id", "created_at"] : [],
    refused: [],
    isSlow,
    status,
    keys,
    isOneStatement: definition.instead === undefined && callers === 1 && own === undefined && status === undefined,
    request: (key) => requestOf(definition, key, headersOf(writes, 1)),
    requests: () => {
      const headers = Array.from({ length: callers }, (_, i) => headersOf(writes, 1 + i));
      const nth = (n: number) => instead(requestOf(definition, 1 + ((n * STEP) % keys), headers[n % callers]!), n);
      return Array.from({ length: Math.max(callers, Math.min(keys, MAX_REQUESTS)) }, (_, n) => nth(n));
    },
  };
});

const headersOf = (writes: boolean, user: number) => ({
  ...ANONYMOUS,
  Authorization: bearer(user),
  ...(writes && { Prefer: "return=representation" }),
});

const requestOf = (
  { method, path, body, headers: own }: Definition,
  key: number,
  headers: HttpRequest["headers"],
): HttpRequest => ({
  method,
  path: path(key),
  headers: { ...headers, ...own },
  body: body === undefined ? null : JSON.stringify(body),
});
