import type { DatabaseFunction } from "../../db/catalog/catalog.ts";
import { documentationOf } from "./comment.ts";
import type { Operation, Parameter, PathItem, Reference } from "./document.ts";
import { argumentParameters, bodyContent } from "./function-arguments.ts";
import { resultContent, uniteContents } from "./function-results.ts";
import type { NamedOffer } from "./names.ts";
import { profileParameters, RESERVED, shared } from "./parameters.ts";
import { type ErrorStatus, errors, headers } from "./responses.ts";
import { rawBodyOf } from "./visible-schema.ts";

/** The tag of all functions. */
export const FUNCTIONS_TAG = "Functions (rpc)";

/** `/rpc/search`: POST, and GET for a function that changes nothing. Overloads share the path. */
export function functionPath(
  offer: NamedOffer,
  name: string,
  overloads: readonly DatabaseFunction[],
): [string, PathItem] {
  const gettable = overloads.filter(isGettable);
  const item = {
    ...(gettable.length > 0 && { get: getOperation(offer, name, gettable) }),
    post: postOperation(offer, name, overloads),
  };
  return [`/rpc/${encodeURIComponent(name)}`, item];
}

/** Whether GET can call it: it writes nothing, and its arguments fit into a query string. */
export const isGettable = (fn: DatabaseFunction) =>
  fn.volatility !== "volatile" &&
  rawBodyOf(fn) === null &&
  fn.arguments.every(({ name, isRequired }) => !isRequired || !RESERVED.has(name));

const getOperation = (offer: NamedOffer, name: string, overloads: readonly DatabaseFunction[]): Operation => ({
  operationId: `query_${offer.functionKey({ name })}`,
  ...described(name, overloads),
  parameters: [
    ...argumentParameters(overloads),
    ...resultParameters(overloads),
    ...(returnsRows(overloads) ? shared("range", "rangeUnit") : []),
    ...profileParameters(offer, "Accept-Profile"),
  ],
  responses: responses(offer, overloads, [400, 401, 403, 404, 406, 416]),
});

const postOperation = (offer: NamedOffer, name: string, overloads: readonly DatabaseFunction[]): Operation => ({
  operationId: `call_${offer.functionKey({ name })}`,
  ...described(name, overloads),
  parameters: [...resultParameters(overloads), ...profileParameters(offer, "Content-Profile")],
  requestBody: {
    required: overloads.every((fn) => fn.arguments.some(({ isRequired }) => isRequired)),
    content: bodyContent(offer, overloads),
  },
  responses: responses(offer, overloads, [400, 401, 403, 404, 406, 409, 416]),
});

/** The comment of the first overload that has one. */
function described(
  name: string,
  overloads: readonly DatabaseFunction[],
): Pick<Operation, "tags" | "summary" | "description"> {
  const comments = overloads.map(({ comment }) => documentationOf(comment));
  const { summary, description } = comments.find((comment) => comment.summary !== "") ?? comments[0]!;
  return { tags: [FUNCTIONS_TAG], summary: summary || name, ...(description && { description }) };
}

const isRow = ({ returns: { kind } }: DatabaseFunction) => kind !== "void" && kind !== "scalar";
const isSet = ({ returns }: DatabaseFunction) => "isSet" in returns && returns.isSet;
const returnsRows = (overloads: readonly DatabaseFunction[]) => overloads.some((fn) => isRow(fn) && isSet(fn));

function resultParameters(overloads: readonly DatabaseFunction[]): (Parameter | Reference)[] {
  if (returnsRows(overloads)) return shared("select", "order", "limit", "offset", "and", "or", "preferRead");
  return overloads.some(isRow) ? shared("select") : [];
}

function responses(
  offer: NamedOffer,
  overloads: readonly DatabaseFunction[],
  statuses: readonly ErrorStatus[],
): Operation["responses"] {
  const results = overloads.map((fn) => resultContent(offer, fn));
  const contents = results.filter((content) => content !== null);
  const result = { content: uniteContents(contents), ...(returnsRows(overloads) && headers("contentRange")) };
  return {
    ...(contents.length > 0 && { 200: { description: "What the function returns.", ...result } }),
    ...(contents.length < results.length && { 204: { description: "Done; the function returns nothing." } }),
    ...(returnsRows(overloads) && { 206: { description: "Some of the rows, when they were counted.", ...result } }),
    ...errors(...statuses),
  };
}
