import type { Case, HttpRequest } from "../case.ts";
import { ANON_KEY } from "../credentials.ts";
import { SERIAL } from "../http-messages.ts";

const MANY_DOCUMENTS = 600;
const MANY_SHAPES = 4000;

const get = (path: string, status: number, headers: Record<string, string> = { apikey: ANON_KEY }): HttpRequest => ({
  method: "GET",
  path,
  headers,
  body: null,
  status,
});
const graphql = (query: string): HttpRequest => ({
  method: "POST",
  path: "/graphql",
  headers: {},
  body: JSON.stringify({ query }),
  status: 200,
});

/** Requests of the same kind that no two clients repeat. Each holds SERIAL. */
const DOCUMENTS = [
  `{ x${SERIAL}: articles(first: 10) { edges { node { title author { name } } } totalCount } }`,
  `query X${SERIAL}($id: ID = 1) { article(id: $id) { title content tags comments(limit: 3) { content author { name email } } } }`,
  `{ x${SERIAL}: users { id name } }`,
].map(graphql);
const SHAPES = [
  get(`/rest/v1/articles?select=x${SERIAL}:title&id=eq.1`, 200),
  get(
    `/rest/v1/articles?select=id,x${SERIAL}:title,author:users(name),comments(content)&id=in.(1,2)&order=id&limit=2`,
    200,
  ),
];
const REFUSED = [
  get(`/${SERIAL}/unknown`, 404),
  get(`/rest/v1/x${SERIAL}`, 404),
  get(`/users/x${SERIAL}`, 400),
  get("/rest/v1/articles", 401, { apikey: SERIAL }),
  get("/rest/v1/articles", 401, { apikey: ANON_KEY, Authorization: `Bearer ${SERIAL}` }),
  get(`/rest/v1/articles?x${SERIAL}=eq.1`, 400),
  graphql(`{ x${SERIAL} }`),
];

/** Different requests in place of one with SERIAL. */
const manyOf = (request: HttpRequest, count: number): HttpRequest[] =>
  Array.from({ length: count }, (_, i) => {
    const text = JSON.stringify(request).replaceAll(SERIAL, String(i).padStart(SERIAL.length, "0"));
    return JSON.parse(text) as HttpRequest;
  });

const floodOf = (name: string, about: string, requests: () => HttpRequest[]): Case => ({
  name,
  about,
  writes: false,
  ownFields: [],
  refused: [],
  requests,
});

export const FLOODS: readonly Case[] = [
  floodOf("documents", "GraphQL documents, each sent once", () => DOCUMENTS),
  floodOf("shapes", "table requests, each with its own columns", () => SHAPES),
  floodOf("refused", "unknown paths, tables, columns, fields and credentials", () => REFUSED),
  floodOf("all", "all of these in turn", () => [...DOCUMENTS, ...SHAPES, ...REFUSED]),
  floodOf("repeated-documents", `${MANY_DOCUMENTS} GraphQL documents in turn, more than fit into the caches`, () =>
    DOCUMENTS.flatMap((each) => manyOf(each, MANY_DOCUMENTS / DOCUMENTS.length)),
  ),
  floodOf("repeated-shapes", `${MANY_SHAPES} table requests in turn`, () =>
    SHAPES.flatMap((each) => manyOf(each, MANY_SHAPES / SHAPES.length)),
  ),
];

/** Documents that clients repeat, as those of an application do. */
export const KNOWN: readonly HttpRequest[] = Array.from({ length: 30 }, (_, i) =>
  graphql(
    `query Known${i} { articles(first: ${1 + i}) { edges { node { id title author { id name } } } pageInfo { endCursor } } }`,
  ),
);
