import { expect, test } from "vitest";
import { readBudget, weighRooms } from "../build/weight.ts";

test("no room is more than a tenth over its budget of lines; npm run weight prints them, -- --write follows a room that must grow", () => {
  const budget = readBudget();
  const rooms = Object.entries(weighRooms());
  expect(rooms.length).toBeGreaterThan(30);
  const over = rooms.filter(([room, lines]) => !(lines <= (budget[room] ?? 0) * 1.1));
  expect(over.map(([room, lines]) => `${room}: ${lines} lines of ${budget[room] ?? 0}`)).toEqual([]);
});
