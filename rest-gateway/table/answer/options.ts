import type { Catalog } from "../../../db/catalog/catalog.ts";
import { methodsOf } from "../plan/changes.ts";
import { findTable, schemaOf } from "../plan/request.ts";
import { noSuchFunction } from "../problem.ts";
import type { TableRequest } from "../request.ts";
import type { Answer } from "./answer.ts";

/** OPTIONS: what can be done with a table or function, in the header Allow. */
export function allowedMethods(request: TableRequest, catalog: Catalog): Answer {
  const methods = request.target.kind === "table" ? ofTable(request, catalog) : ofFunction(request, catalog);
  return { status: 200, headers: [["Allow", methods.join(",")]], body: Buffer.alloc(0) };
}

const ofTable = (request: TableRequest, catalog: Catalog) =>
  methodsOf(findTable(schemaOf(request, catalog), request.target.name));

function ofFunction(request: TableRequest, catalog: Catalog): string[] {
  const schema = schemaOf(request, catalog);
  const overloads = schema.functions.get(request.target.name);
  if (!overloads)
    throw noSuchFunction(`${schema.name}.${request.target.name}`, "There is no function of this name.", null);
  const isOnlyVolatile = overloads.every(({ volatility }) => volatility === "volatile");
  return isOnlyVolatile ? ["OPTIONS", "POST"] : ["OPTIONS", "GET", "HEAD", "POST"];
}
