/**
 * A function of two objects that returns the same result for the same two, as long as both exist.
 *
 *   const intersectionOf = forPairs((one: Set<string>, other: Set<string>) => one.intersection(other))
 */
export function forPairs<One extends object, Other extends object, Result>(
  make: (one: One, other: Other) => Result,
): (one: One, other: Other) => Result {
  const known = new WeakMap<One, WeakMap<Other, Result>>();
  return (one, other) => {
    const ofOne = known.get(one) ?? new WeakMap<Other, Result>();
    known.set(one, ofOne);
    const result = ofOne.get(other) ?? make(one, other);
    ofOne.set(other, result);
    return result;
  };
}
