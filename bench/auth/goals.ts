import { atLeast, type Goal, ratios, worstOf } from "../goals.ts";
import type { Series } from "../rounds.ts";
import { ANONYMOUS, BEARER, KEY_OF_USER } from "./cases.ts";

/** Requests per second to those of the anon key alone: what it may cost to know who asks. */
const SPEEDS: readonly (readonly [way: string, least: number])[] = [
  [BEARER.name, 0.95],
  [KEY_OF_USER.name, 0.9],
];

export const goalsOf = (series: readonly Series[]): Goal[] =>
  SPEEDS.map(([way, least]) => {
    const own = series.filter(({ contestant }) => contestant === way);
    const measure = ratios(ANONYMOUS.name, "requestsPerSecond", series);
    return worstOf(own, `requests/s of ${way} to ${ANONYMOUS.name}`, atLeast(least), measure);
  });
