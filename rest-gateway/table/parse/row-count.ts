import { invalidRange } from "../problem.ts";
import { Scanner } from "./scanner.ts";

/** Numbers of rows have so many digits at most: sums of a few of them are exact in JavaScript. */
export const MAX_DIGITS = 15;

const NAMES = { limit: "Limit", offset: "Offset" } as const;

/** What follows `limit=` and `offset=`. */
export function parseRowCount(parameter: keyof typeof NAMES, text: string): number {
  const scanner = new Scanner(parameter, text);
  const isNegative = scanner.takes("-");
  const digits = scanner.takeWhile(isDigit);
  if (digits === "" || !scanner.isAtEnd) throw scanner.error("a digit");
  if (digits.length > MAX_DIGITS) {
    scanner.at = 0;
    throw scanner.error(`a number of at most ${MAX_DIGITS} digits`);
  }
  const count = Number(digits);
  if (isNegative && count > 0) throw invalidRange(`${NAMES[parameter]} should be greater than or equal to zero.`);
  return count;
}

const isDigit = (code: number) => code >= 0x30 && code <= 0x39;
