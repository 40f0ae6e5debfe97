/** Whether the run takes all samples and all long ways: the environment variable SAMPLES is `all`, as in .ci/run. */
export const TAKES_ALL = process.env.SAMPLES === "all";

/**
 * How many samples a property test takes: a tenth of `all`, unless the run takes all.
 *
 *   fc.assert(property, { numRuns: samples(200) }) // 20
 */
export const samples = (all: number): number => (TAKES_ALL ? all : Math.ceil(all / 10));
