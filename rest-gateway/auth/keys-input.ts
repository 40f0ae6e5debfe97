import type { Fault } from "../conventions/problem.ts";
import { objectOf } from "./body.ts";
import { badFields } from "./problem.ts";

export type KeyInput = {
  readonly name: string;
  /** Seconds; null for a key without an end. */
  readonly expiresIn: number | null;
};

export const MAX_NAME = 100;
export const MIN_SECONDS = 60;
export const MAX_SECONDS = 365 * 24 * 3600;
const FIELDS = ["name", "expiresIn"];

/**
 * `{ name, expiresIn? }`. Throws RestError that names every fault. Fields that are not known are none to pass over: a key
 * with `expires_in` would never end.
 */
export function parseKey(body: unknown): KeyInput {
  const object = objectOf(body);
  const { name, expiresIn = null } = object;
  const faults = [...unknownIn(object), ...faultsOfName(name), ...faultsOfEnd(expiresIn)];
  if (faults.length > 0) throw badFields(faults, name === undefined);
  return { name: name as string, expiresIn: expiresIn as number | null };
}

const unknownIn = (body: object): Fault[] =>
  Object.keys(body)
    .filter((field) => !FIELDS.includes(field))
    .slice(0, 10)
    .map((field) => {
      const told = field.slice(0, 50);
      return { field: told, message: `there is no field ${told}: use ${FIELDS.join(" and ")}` };
    });

function faultsOfName(name: unknown): Fault[] {
  if (name === undefined) return [{ field: "name", message: "name is required" }];
  const isName = typeof name === "string" && isSeen(name) && [...name].length <= MAX_NAME && isStorable(name);
  return isName ? [] : [{ field: "name", message: `name must be a text of 1 to ${MAX_NAME} characters` }];
}

/** Postgres and JavaScript do not agree on what is blank. */
const isSeen = (text: string) => /[\p{L}\p{N}\p{P}\p{S}]/u.test(text);
const isStorable = (text: string) => text.isWellFormed() && !text.includes("\0");

function faultsOfEnd(seconds: unknown): Fault[] {
  const isTime = Number.isInteger(seconds) && Number(seconds) >= MIN_SECONDS && Number(seconds) <= MAX_SECONDS;
  if (seconds === null || isTime) return [];
  const message = `expiresIn must be a whole number of seconds from ${MIN_SECONDS} to ${MAX_SECONDS}, or null for a key without an end`;
  return [{ field: "expiresIn", message }];
}
