import type { MediaType } from "../../conventions/media.ts";
import type { Body, Condition, Field, QueryPart, TableRequest } from "../request.ts";

/** The texts of objects that requests share. The parsers cache these objects. */
const texts = new WeakMap<object, string>();

/**
 * Equal for requests that differ only in their values, or in the text of the body and its number of rows.
 * Names are written as JSON, which contains no line break, so a name cannot imitate another line.
 */
export function shapeOf(request: Omit<TableRequest, "shape">): string {
  const { method, target, schema, query, preferences, range, accept, body } = request;
  let shape = `${method} ${target.kind} ${quote(target.name)} ${quote(schema)}
${textOfShared(query.select, JSON.stringify)}
${textOfShared(preferences, JSON.stringify)}
${textOfShared(accept, shapeOfAccept)}
${range ? `${range.first}-${range.last}` : ""}
${body ? shapeOfBody(body) : ""}
${query.columns && textOfShared(query.columns, JSON.stringify)}
${query.onConflict && textOfShared(query.onConflict, JSON.stringify)}
${query.arguments.size === 0 ? "" : JSON.stringify([...query.arguments])}`;
  for (const [path, part] of query.parts) shape += `\n${quote(path)} ${shapeOfPart(part)}`;
  return shape;
}

const quote = (name: string | null) => JSON.stringify(name);

function textOfShared<Shared extends object>(shared: Shared, write: (shared: Shared) => string): string {
  const text = texts.get(shared);
  if (text !== undefined) return text;
  const written = write(shared);
  texts.set(shared, written);
  return written;
}

const shapeOfAccept = (accept: readonly MediaType[]) =>
  JSON.stringify(accept.map(({ type, parameters }) => [type, ...parameters]));

const shapeOfBody = (body: Body) =>
  JSON.stringify(body.kind === "text" ? body.type : [body.source, body.isArray, body.isOther, body.keys]);

const shapeOfPart = ({ conditions, order, limit, offset }: QueryPart) =>
  `${shapeOfConditions(conditions)} ${textOfShared(order, JSON.stringify)} ${limit} ${offset}`;

const shapeOfConditions = (conditions: readonly Condition[]): string => `(${conditions.map(shapeOfCondition).join()})`;

function shapeOfCondition(condition: Condition): string {
  const negation = condition.isNegated ? "not." : "";
  if (condition.kind === "logic") return `${negation}${condition.operator}${shapeOfConditions(condition.conditions)}`;
  const { field, operator, quantifier, language, keyword, value } = condition;
  const modifier = quantifier ?? (language === null ? "" : quote(language));
  return `${negation}${operator}(${modifier}).${keyword ?? ""} ${value} ${shapeOfField(field)}`;
}

const shapeOfField = ({ name, path }: Field) =>
  path.length === 0 ? quote(name) : `${quote(name)}${JSON.stringify(path)}`;
