import { shapeCache, type TextCache } from "../../cache/text-cache.ts";
import type { Statement } from "../../db/transaction.ts";
import { finish, type Sql, type Written } from "../sql.ts";
import { writeChange } from "../table/write/changes.ts";
import { writeRead } from "../table/write/query.ts";
import { SNAPSHOT } from "../table/write/result.ts";
import { writeStatement } from "../table/write/statement.ts";
import { planInsert, planInsertMany, planList, planRecord, planTarget, planUpdate } from "./plan/request.ts";
import type { ResourceRequest } from "./request.ts";
import type { Resource } from "./resource.ts";
import {
  writeAct,
  writeChanged,
  writeDeleted,
  writeFound,
  writeLock,
  writeMissing,
  writeUpdated,
} from "./write/record.ts";

/** The statements of requests. Each shape is planned and written once. */
export class Statements {
  /** By resource: a new catalog has new ones. */
  readonly #shapes = new WeakMap<Resource, TextCache<readonly Written[]>>();

  /** One transaction. */
  of(request: ResourceRequest): Statement[] {
    const { resource, shape } = request;
    const shapes = this.#shapes.get(resource) ?? shapeCache<readonly Written[]>(lengthOf);
    this.#shapes.set(resource, shapes);
    const written = shapes.getOrCompute(shape, () => writeRequest(request).map(finish));
    return written.map((each) => writeStatement(each, request));
  }
}

const lengthOf = (statements: readonly Written[]) => statements.reduce((sum, { text }) => sum + text.length, 0);

/** Most requests have one statement. */
function writeRequest(request: ResourceRequest): readonly Sql[] {
  const { operation, resource } = request;
  switch (operation.kind) {
    case "list": {
      const parent = operation.parent && planTarget(operation.parent);
      return [writeRead(planList(request, operation), null, [...(parent ? [writeMissing(parent)] : []), SNAPSHOT])];
    }
    case "read":
      return [writeFound(planRecord(request, operation))];
    case "create":
      if (operation.isMany) return [writeChange(planInsertMany(request, operation), null)];
      return [writeChanged(planRecord(request), planInsert(request, operation))];
    case "update": {
      const record = planRecord(request, operation);
      return [writeUpdated(record, planUpdate(record, operation))];
    }
    case "delete": {
      const record = planRecord(request, operation);
      if (!operation.isCascading) return [writeDeleted(record, [])];
      return [writeLock(record), writeDeleted(record, resource.description.cascade)];
    }
    case "act": {
      const record = planRecord(request, operation);
      return [writeAct(record, resource.description.actions[operation.action]!.function), writeFound(record)];
    }
  }
}
