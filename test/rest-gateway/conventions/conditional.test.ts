import { expect, test } from "vitest";
import {
  contentTag,
  hasChangedSince,
  isNotModified,
  lastModifiedText,
  parseEntityTags,
} from "../../../rest-gateway/conventions/conditional.ts";

test("the entity tag of a body is the same only for the same bytes", () => {
  expect(contentTag(Buffer.from("[]"))).toMatch(/^"[\w-]{16}"$/);
  expect(contentTag(Buffer.from("[]"))).toBe(contentTag(Buffer.from("[]")));
  expect(contentTag(Buffer.from("[]"))).not.toBe(contentTag(Buffer.from("[ ]")));
});

test.each([
  ["*", "any"],
  [" * ", "any"],
  ['"a"', ['"a"']],
  ['"a", W/"b"', ['"a"', 'W/"b"']],
  ['"a","b"', ['"a"', '"b"']],
  ['"a,b"', ['"a,b"']], // a comma may be part of a tag
  [', "a" ,, "b",', ['"a"', '"b"']],
  ['""', ['""']],
  ['"é"', ['"é"']],
  ["", null],
  [",", null],
  ["a", null],
  ['"a', null],
  ['"a" "b"', null],
  ['"a b"', null],
  ['w/"a"', null], // W is case-sensitive
  ['*, "a"', null],
])("the entity tags of the header %s are parsed, or null if it is invalid", (header, tags) =>
  expect(parseEntityTags(header)).toEqual(tags),
);

const MODIFIED = new Date("1994-11-06T08:49:37.800Z");
const SAME = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE = "Sun, 06 Nov 1994 08:49:36 GMT";

test.each([
  ["no header", {}, false],
  ["the tag", { "if-none-match": '"v1-7"' }, true],
  ["another tag", { "if-none-match": '"v1-8"' }, false],
  ["the tag as a weak tag", { "if-none-match": 'W/"v1-7"' }, true],
  ["a list with the tag", { "if-none-match": '"v1-8", "v1-7"' }, true],
  ["any tag", { "if-none-match": "*" }, true],
  ["the tag without quotes", { "if-none-match": "v1-7" }, false],
  ["the date", { "if-modified-since": SAME }, true],
  ["a later date", { "if-modified-since": "Mon, 07 Nov 1994 00:00:00 GMT" }, true],
  ["an earlier date", { "if-modified-since": BEFORE }, false],
  ["an invalid date", { "if-modified-since": "1994-11-06T08:49:37Z" }, false],
  ["the tag and an earlier date", { "if-none-match": '"v1-7"', "if-modified-since": BEFORE }, true],
  ["another tag and the date", { "if-none-match": '"v1-8"', "if-modified-since": SAME }, false],
  ["a malformed tag and the date", { "if-none-match": "v1-7", "if-modified-since": SAME }, false],
])("a client that sends %s gets 304: %o", (_what, headers, expected) =>
  expect(isNotModified(headers, { etag: '"v1-7"', lastModified: MODIFIED })).toBe(expected),
);

test.each([
  ["a weak tag matches its strong form", { "if-none-match": '"a"' }, { etag: 'W/"a"', lastModified: null }, true],
  [
    "a resource without a tag matches no tag",
    { "if-none-match": '"a"' },
    { etag: null, lastModified: MODIFIED },
    false,
  ],
  [
    "a resource without a date has always changed",
    { "if-modified-since": SAME },
    { etag: '"a"', lastModified: null },
    false,
  ],
])("%s", (_what, headers, validators, expected) => expect(isNotModified(headers, validators)).toBe(expected));

test("Last-Modified has the date format of HTTP", () => expect(lastModifiedText(MODIFIED)).toBe(SAME));

test.each([
  [SAME, false], // whole seconds
  [BEFORE, true],
  ["Sunday, 06-Nov-94 08:49:37 GMT", false],
  ["Sunday, 06-Nov-94 08:49:36 GMT", true],
  ["Sun Nov  6 08:49:37 1994", false],
  ["Sun Nov  6 08:49:36 1994", true],
  ["Sun Nov 06 08:49:37 1994", false],
  ["Thursday, 06-Nov-42 08:49:37 GMT", false], // within 50 years: 2042
  ["Sunday, 06-Nov-93 08:49:37 GMT", true], // 1993
  ["Thu, 31 Feb 1994 08:49:37 GMT", null],
  ["Sun, 06 Nov 1994 24:00:00 GMT", null],
  ["Sun, 6 Nov 1994 08:49:37 GMT", null],
  ["Sun, 06 Nov 1994 08:49:37 UTC", null],
  ["Sun, 06 Nov 1994 08:49:37 +0000", null],
  ["784111777", null],
  ["", null],
])("a resource of 08:49:37.8 has changed since %j: %o", (header, expected) =>
  expect(hasChangedSince(MODIFIED, header)).toBe(expected),
);
