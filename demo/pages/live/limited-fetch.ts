/** Milliseconds within which the service must answer, because a network may lose a request without an error. */
const LIMIT = 20_000;

/** `fetch` for createClient: a request without an answer fails, so that it can be repeated. */
export const limitedFetch: typeof fetch = (url, options) => {
  const signals = [AbortSignal.timeout(LIMIT), ...(options?.signal ? [options.signal] : [])];
  return fetch(url, { ...options, signal: AbortSignal.any(signals) });
};
