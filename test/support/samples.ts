/**
 * How many samples a property test takes: a tenth of `all`, unless the environment variable SAMPLES is `all`, as in .ci/run.
 *
 *   fc.assert(property, { numRuns: samples(200) }) // 20
 */
export const samples = (all: number): number => (process.env.SAMPLES === "all" ? all : Math.ceil(all / 10));
