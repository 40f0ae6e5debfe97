/** Milliseconds within which the service must answer, because a network may lose a request without an error. */
const LIMIT = 20_000;

/** `fetch` for createClient: a request without an answer fails, so that it can be repeated. */
export const limitedFetch: typeof fetch = async (url, options) => {
  const signals = [AbortSignal.timeout(LIMIT), ...(options?.signal ? [options.signal] : [])];
  const response = await fetch(url, { ...options, signal: AbortSignal.any(signals) });
  const { status, headers } = response;
  if (status < 500 || headers.get("content-type")?.includes("json")) return response;
  // A proxy whose service is down answers with HTML, or nothing: the library would take that for the message.
  return Response.json({ message: `The service cannot be reached (status ${status}).` }, { status });
};
