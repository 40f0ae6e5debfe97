import { expect, onTestFinished, test } from "vitest";
import { listedFiles, ROADS, trace } from "../bench/roads.ts";
import { createTestDatabase } from "./support/database.ts";

test.each(ROADS)("bench/roads.md lists the files that $request passes", { timeout: 240_000 }, async (road) => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const { files } = await trace(database.url, road);
  expect(listedFiles(road).toSorted()).toEqual(files.map(({ file }) => file).toSorted());
});
