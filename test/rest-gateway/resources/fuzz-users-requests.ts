import fc from "fast-check";
import type { PlainRequest } from "./plain-http.ts";

/** Random requests to /users, malformed and valid. */

/** Half of a surrogate pair has no UTF-8, so that its bytes are wrong. */
const encode = (text: string) =>
  text.replace(/[^\w.,:*!~-]/gu, (sign) => (sign.isWellFormed() ? encodeURIComponent(sign) : "%ed%a0%80"));

const SNIPPETS = [
  ..."'|\"|--|;|%|_|\\|\0|\ud800|../|{}|[]|()|,|:|.|-|+|/|?|&|=|<script>|🦉|é|\u202e|null|true|NaN|1e999|-1|0|1|2|4".split(
    "|",
  ),
  ..."9223372036854775808|99999999999999999999|ada@example.com|ADA@EXAMPLE.COM|2026-02-30|' or 1=1 --".split("|"),
];
const snippet = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...SNIPPETS) },
  { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 12 }) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 6 }) },
);
const words = fc.array(snippet, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(""));

const id = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom("1", "2", "4", "999") },
  { weight: 2, arbitrary: words.map(encode) },
  { weight: 1, arbitrary: fc.constantFrom("%", "%ff", "%00", "%2f") },
);
const path = fc.oneof(
  { weight: 4, arbitrary: fc.constant("/users") },
  { weight: 4, arbitrary: id.map((id) => `/users/${id}`) },
  { weight: 1, arbitrary: id.map((id) => `/users/${id}/articles`) },
  { weight: 1, arbitrary: fc.tuple(id, id).map(([a, b]) => `/users/${a}/articles/${b}`) },
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom("v1", "v2", "v3"), id).map(([v, id]) => `/api/${v}/users/${id}`) },
  { weight: 1, arbitrary: fc.constantFrom("/api/v2/users", "/users/", "/users//", "/api/v1") },
);

const NAMES =
  "skip|limit|page|size|sort|order|keyword|fields|name|email|age|cascade|version|api_key|nothing|__proto__".split("|");
const VALUES =
  "|0|1|3|10|100|101|-1|1.5|asc|desc|id|name:desc,id|created_at|createdAt:asc|id,name|_links|articles|true|false".split(
    "|",
  );
const value = fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...VALUES) }, { weight: 1, arbitrary: words });
const parameter = fc.oneof(
  {
    weight: 9,
    arbitrary: fc.tuple(fc.constantFrom(...NAMES), value.map(encode)).map(([name, text]) => `${name}=${text}`),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom("=", "&&", "limit", "%ff=%ff", "%", "limit[]=1", "a=b=c", "sort=id&sort=id"),
  },
);
const query = fc.oneof(
  fc.constantFrom(
    "",
    "?limit=3",
    "?skip=1&limit=2",
    "?page=1&size=2",
    "?page=1&limit=2",
    "?keyword=a&sort=name:desc,id",
  ),
  fc.array(parameter, { maxLength: 3 }).map((all) => (all.length > 0 ? `?${all.join("&")}` : "")),
);

const FIELDS = "name|email|age|id|created_at|updatedAt|password|username|_links|nickname|__proto__|".split("|");
const json = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.constantFrom<unknown>("Grace", "", " ", "grace@test.example", "ada@example.com", null, 0, 36, -1),
  },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
  { weight: 1, arbitrary: words },
);
const email = fc.oneof(
  { weight: 3, arbitrary: fc.uuid().map((id) => `${id}@test.example`) },
  { weight: 1, arbitrary: words.map((text) => `${text}@test.example`) },
);
const user = fc.record(
  { name: words, email, age: fc.integer({ min: -1, max: 151 }) },
  { requiredKeys: ["name", "email"] },
);
const record = fc.oneof(
  { weight: 3, arbitrary: user },
  { weight: 1, arbitrary: fc.dictionary(fc.constantFrom(...FIELDS), json, { maxKeys: 4 }) },
);
const body = fc.oneof(
  { weight: 6, arbitrary: record.map((input) => JSON.stringify(input)) },
  { weight: 2, arbitrary: fc.array(record, { maxLength: 3 }).map((inputs) => JSON.stringify(inputs)) },
  { weight: 1, arbitrary: fc.json() },
  { weight: 1, arbitrary: words },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 20 }) },
);

const HEADERS: Readonly<Record<string, readonly string[]>> = {
  prefer: [
    "dialect=detail",
    "dialect=flat",
    "dialect=envelope",
    "dialect=case",
    "dialect=partial",
    "handling=strict",
    '"',
    "a;b=c",
    "respond-async",
  ],
  "content-type": ["application/json", "text/plain", "application/json; charset=x", ";", "*/*"],
  "if-match": ["*", '"v1-1"', 'W/"v1-1"', "x", '"', '"v1-99999999999999999999"', ""],
  "if-none-match": ["*", '"v1-1"', '""', ",", "x"],
  "if-modified-since": ["x", "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Feb 2030 00:00:00 GMT"],
  "if-unmodified-since": ["x", "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 2099 00:00:00 GMT"],
  "x-api-version": ["1", "2", "3", "x", ""],
  accept: ["application/vnd.content.v2+json", "text/html;q=x", "*/*", ";"],
  "x-api-key": ["x", ""],
  authorization: ["Basic YTpi", "Bearer x", "Bearer"],
};
const latin1 = fc.integer({ min: 0x20, max: 0xff }).filter((code) => code !== 0x7f);
const headerText = fc.string({ unit: latin1.map((code) => String.fromCharCode(code)), maxLength: 12 });
const header = fc
  .constantFrom(...Object.keys(HEADERS))
  .chain((name) =>
    fc
      .oneof({ weight: 6, arbitrary: fc.constantFrom(...HEADERS[name]!) }, { weight: 1, arbitrary: headerText })
      .map((text) => [name, text] as const),
  );
const headers = fc.oneof(
  fc.constant<Readonly<Record<string, string>>>({}),
  fc.array(header, { maxLength: 2 }).map((all) => Object.fromEntries(all)),
);

/** GET, HEAD, DELETE and OPTIONS, and methods that there are not. */
export const reads: fc.Arbitrary<PlainRequest> = fc.record({
  method: fc.constantFrom("GET", "GET", "GET", "HEAD", "DELETE", "OPTIONS", "TRACE"),
  path: fc.tuple(path, query).map((parts) => parts.join("")),
  headers,
});

export const writes: fc.Arbitrary<PlainRequest> = fc.record({
  method: fc.constantFrom("POST", "PUT", "PATCH"),
  path: fc
    .tuple(
      fc.oneof(fc.constant("/users"), fc.constant("/users/1"), path),
      fc.oneof(fc.constant(""), fc.constant(""), query),
    )
    .map((parts) => parts.join("")),
  headers: headers.map((given) => ({ "content-type": "application/json", ...given })),
  body,
});
