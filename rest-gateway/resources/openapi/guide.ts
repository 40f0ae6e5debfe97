import type { Edition } from "./version.ts";

/** How to ask, in Markdown: the introduction of the reference page. */
export const guideOf = ({ version, isDeprecated, hasTasks }: Edition): string =>
  [isDeprecated ? DEPRECATED : "", EVERYWHERE, LISTS[version], ERRORS[version], hasTasks ? TASKS : ""]
    .filter((text) => text !== "")
    .join("\n\n");

const DEPRECATED =
  "**This version is deprecated: use version 2.** Each answer says so in `X-API-Warn`, and objects in `deprecation`.";

const EVERYWHERE = `Every address has HEAD and OPTIONS too. What it does not have is 405, and \`Allow\` lists what it has.

## Versions

\`/api/v1\` and \`/api/v2\` in front of the address, \`X-API-Version\`, \`Accept: application/vnd.content.v2+json\` or \`?version=2\`; version 1
when nothing is said. Two that disagree are 400.

## Conditional requests

\`ETag\` and \`Last-Modified\` of an answer go into \`If-None-Match\` and \`If-Modified-Since\`, for 304, and those of a record into
\`If-Match\` and \`If-Unmodified-Since\` of a change, for 412 when somebody else was faster.`;

const LISTS = {
  1: `## Lists

\`skip\` and \`limit\`, \`page\` from 1 and \`limit\`, or \`page\` from 0 and \`size\`: each has a form of its own. \`X-Total-Count\` and \`Link\` come
with all of them.`,
  2: `## Lists

\`page\` from 1 and \`limit\`; records stand in \`data\`, beside \`pagination\` and \`links\`.`,
} as const;

const ERRORS = {
  1: `## Errors

\`error.code\` is for programs, \`error.message\` for people. A body that breaks a rule is 400.`,
  2: `## Errors

\`error.code\` is for programs, \`error.message\` for people. A body that breaks a rule is 422, and \`errors\` lists all that is wrong.`,
} as const;

const TASKS = `## Tasks

\`Prefer: respond-async\` on a list of new records, or on a whole collection: 202 with the address of a task, which does it.`;
