import { setFlagsFromString } from "node:v8";

const OPTION = "--retain-maps-for-n-gc";
/** The default of V8. */
const COLLECTIONS = 2;

let builds = 0;

/**
 * Builds a schema while V8 frees the maps (hidden classes) that no object has any more: their accessors hold the schema before. At other
 * times V8 retains them for some collections, so that code that uses them stays optimized.
 */
export async function freeingMaps<T>(build: () => Promise<T>): Promise<T> {
  if (builds++ === 0) setFlagsFromString(`${OPTION}=0`);
  try {
    return await build();
  } finally {
    if (--builds === 0) setFlagsFromString(`${OPTION}=${COLLECTIONS}`);
  }
}
