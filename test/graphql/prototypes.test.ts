import * as pg from "pg";
import * as grafast from "postgraphile/grafast";
import * as graphql from "postgraphile/graphql";
import { expect, test } from "vitest";
import * as ws from "ws";
import { useService } from "../support/http-client.ts";

type Members = ReadonlyMap<PropertyKey, PropertyDescriptor>;

/** The members of the prototypes of Node's classes and of the libraries that execute operations, by the name of the class. */
function prototypes(): ReadonlyMap<string, Members> {
  const found = new Map<string, Members>();
  for (const [library, names] of Object.entries({ node: globalThis, grafast, graphql, pg, ws }))
    for (const name of Object.getOwnPropertyNames(names)) {
      const value = library === "node" && name === "navigator" ? null : (names as Record<string, unknown>)[name];
      if (typeof value !== "function" || !value.prototype) continue;
      const members = Reflect.ownKeys(value.prototype).map(
        (key) => [key, Object.getOwnPropertyDescriptor(value.prototype, key)!] as const,
      );
      found.set(`${library} ${name}`, new Map(members));
    }
  return found;
}

const before = prototypes();
const client = useService();

test("a running service has replaced no prototype of Node or of a library", async () => {
  expect(await client.data("{ users { name articles { title } } }")).toBeTruthy();
  const after = prototypes();
  expect([...before.keys()]).toEqual(
    expect.arrayContaining(["node AbortController", "grafast OperationPlan", "ws WebSocket"]),
  );
  const replaced = [...before].flatMap(([name, members]) => {
    const now = after.get(name)!;
    const isSame = (key: PropertyKey) =>
      (["value", "get", "set"] as const).every((part) => members.get(key)?.[part] === now.get(key)?.[part]);
    return [...new Set([...members.keys(), ...now.keys()])]
      .filter((key) => !isSame(key))
      .map((key) => `${name}.${String(key)}`);
  });
  expect(replaced).toEqual([]);
});
