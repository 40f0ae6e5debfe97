import { OPERATORS } from "./filters.ts";

const operators = Object.entries(OPERATORS).map(([name, meaning]) => `| \`${name}\` | ${meaning} |`);

/** How to ask, in Markdown: the introduction of the reference page. */
export const GUIDE = `Every table and view is a collection of rows, every function can be called under \`/rpc\`.

## Filters

\`?column=operator.value\` chooses rows, \`?column=not.operator.value\` the others: \`/articles?status=eq.PUBLISHED&title=ilike.*sql*\`.
All filters must hold; \`or=(a.eq.1,b.gt.2)\` asks for one of several. \`eq(any).{1,2}\` and \`like(all).{a*,*b}\` take a list.

| operator | column is |
|---|---|
${operators.join("\n")}

## Related rows

\`select=title,author:users(name),comments(content)\` brings the rows that foreign keys lead to, as objects and lists.
\`comments!inner(content)\` leaves out rows that have none; \`comments.content=ilike.*sql*\` filters the list.

## Pages

\`limit\` and \`offset\`, or the header \`Range: 0-9\`. With \`Prefer: count=exact\` the header \`Content-Range\` tells how many rows there are in all.

## One row

With \`Accept: application/vnd.pgrst.object+json\` the answer is one object; it is an error when there is no row, or more than one.
`;
