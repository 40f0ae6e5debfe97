import { Memo } from "../../conventions/memo-cache.ts";
import { readName } from "./field.ts";
import { Scanner } from "./scanner.ts";

const memos = { columns: new Memo<readonly string[]>(), on_conflict: new Memo<readonly string[]>() };

/** What follows `columns=` and `on_conflict=`: `id,"first name"` */
export const parseNames = (parameter: keyof typeof memos, text: string): readonly string[] =>
  memos[parameter].of(text, (own) => readNames(parameter, own));

function readNames(parameter: string, text: string): string[] {
  const scanner = new Scanner(`${parameter} parameter`, text);
  const names = new Set<string>();
  do {
    scanner.skipSpace();
    names.add(readName(scanner));
    scanner.skipSpace();
  } while (scanner.takes(","));
  scanner.expectEnd('"," or the end');
  return [...names];
}
