import type { ObjectId } from "./introspection.ts";

/** Maximum attempts to build one schema. */
const MAX_ATTEMPTS = 40;

/** Objects that are left out because of an error or a conflict with others. */
export type Culprits = ReadonlyMap<ObjectId, Error>;

/** The result of one attempt: what was built, or why it could not be. `culprits` are those that the attempt itself has found. */
export type Attempt<Built> = ({ readonly built: Built } | { readonly error: Error }) & { readonly culprits: Culprits };

export type Search<Built> = {
  attempt(leftOut: ReadonlySet<ObjectId>): Promise<Attempt<Built>>;
  /** What can be left out, the oldest first. Called after the first attempt. */
  objects(): readonly ObjectId[];
  /** The parts of an object that can be left out without it. */
  partsOf(object: ObjectId): readonly ObjectId[];
  /** The culprits of the previous search. */
  readonly known: Culprits;
};

export type Found<Built> = {
  readonly built: Built;
  readonly culprits: Culprits;
  /** Left out as well, because attempts are limited: the objects that are newer than the last culprit. */
  readonly newer: readonly ObjectId[];
};

/**
 * Builds something from as many objects as possible. If the build fails, leaves out the oldest object with which it fails, or only
 * the part of that object that is the cause, and tries again: an object that is served today is not lost because of one that is
 * created tomorrow. The search begins with the newest objects, the most likely culprits. Rejects with the error of the first
 * attempt if no object is the cause.
 */
export async function buildWithoutCulprits<Built>({
  attempt,
  objects,
  partsOf,
  known,
}: Search<Built>): Promise<Found<Built>> {
  const culprits = new Map<ObjectId, Error>();
  let attempts = 0;
  /** Repeats the attempt while it names further culprits itself. */
  const build = async (leftOut: readonly ObjectId[]): Promise<Attempt<Built>> => {
    for (;;) {
      attempts++;
      const result = await attempt(new Set([...culprits.keys(), ...leftOut]));
      const isNew = [...result.culprits].filter(([object]) => !culprits.has(object) && !leftOut.includes(object));
      if (isNew.length === 0 || attempts >= MAX_ATTEMPTS) return result;
      for (const [object, error] of isNew) culprits.set(object, error);
    }
  };
  /** The part without which the object can be built; the object itself if there is no such part. */
  const partAtFault = async (object: ObjectId, newer: readonly ObjectId[]): Promise<ObjectId> => {
    for (const part of attempts < MAX_ATTEMPTS ? partsOf(object) : []) {
      attempts++;
      const result = await attempt(new Set([...culprits.keys(), part, ...newer]));
      if ("built" in result && [...result.culprits.keys()].every((each) => culprits.has(each))) return part;
    }
    return object;
  };
  const whole = await build([]);
  if ("built" in whole) return { built: whole.built, culprits, newer: [] };
  const all = objects();
  const again = await withoutKnown(known, [...all, ...all.flatMap(partsOf)], culprits, build);
  if (again) return again;

  let { error } = whole;
  // Without the culprits, the first `good` objects can be built.
  let good = -1;
  let best: { readonly built: Built } | null = null;
  for (;;) {
    let bad = all.length;
    for (let step = 1; bad - good > 1; ) {
      if (best !== null && attempts >= MAX_ATTEMPTS) return { ...best, culprits, newer: all.slice(good) };
      const first = Math.max(good + 1, step > 0 ? bad - step : (good + bad) >> 1);
      const result = await build(all.slice(first));
      if ("built" in result) [good, best, step] = [first, { built: result.built }, 0];
      else [bad, error, step] = [first, result.error, step * 2];
    }
    if (bad === 0) throw whole.error;
    culprits.set(await partAtFault(all[bad - 1]!, all.slice(bad)), error);
    good = bad;
    const result = await build([]);
    if ("built" in result) return { built: result.built, culprits, newer: [] };
    error = result.error;
  }
}

/** Builds without the culprits of the previous search, except those that have been fixed. Null if that is not enough. */
async function withoutKnown<Built>(
  known: Culprits,
  all: readonly ObjectId[],
  culprits: Map<ObjectId, Error>,
  build: (leftOut: readonly ObjectId[]) => Promise<Attempt<Built>>,
): Promise<Found<Built> | null> {
  const remaining = new Map([...known].filter(([object]) => all.includes(object) && !culprits.has(object)));
  if (remaining.size === 0) return null;
  let last = await build([...remaining.keys()]);
  if ("error" in last) return null;
  // A single culprit cannot have been fixed: the first attempt, which included it, failed.
  for (const object of remaining.size > 1 ? [...remaining.keys()] : []) {
    const result = await build([...remaining.keys()].filter((each) => each !== object));
    if ("error" in result) continue;
    remaining.delete(object);
    last = result;
  }
  return { built: last.built, culprits: new Map([...culprits, ...remaining]), newer: [] };
}
