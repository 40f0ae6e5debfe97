import { caller } from "./caller.js";
import { createClient } from "./library.js";

/** @typedef {{ query: string, variables?: Record<string, unknown>, operationName?: string, headers: Record<string, string> }} Operation */
/** @typedef {{ body: unknown, summary: string, isFault?: boolean }} Outcome */

const NO_RESPONSE = "The service does not respond. Check that it is running, and run the operation again.";

/** The result of a query or a mutation. @param {Operation} operation @param {AbortSignal} [signal] @returns {Promise<Outcome>} */
export async function send({ headers, ...body }, signal) {
  const started = performance.now();
  const init = { method: "POST", body: JSON.stringify(body), signal: signal ?? null };
  /** @type {Response} */
  let response;
  let text = "";
  try {
    const sent = new Headers({ "content-type": "application/json", ...caller.headers() });
    for (const [name, value] of Object.entries(headers)) sent.set(name, value);
    response = await fetch("/graphql", { ...init, headers: sent });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) return { body: null, summary: "Stopped." };
    const isHeader = error instanceof TypeError && /header/i.test(error.message);
    return { body: null, summary: isHeader ? error.message : NO_RESPONSE, isFault: true };
  }
  caller.check(response);
  const time = `${Math.round(performance.now() - started)} ms`;
  const size = `${(new Blob([text]).size / 1000).toFixed(1)} kB`;
  try {
    const result = JSON.parse(text);
    const count = result.errors?.length ?? 0;
    const errors = count === 0 ? [] : [count === 1 ? "1 error" : `${count} errors`];
    return { body: result, summary: [response.status, time, size, ...errors].join(" · "), isFault: count > 0 };
  } catch {
    return { body: text, summary: `${response.status}: the response is not JSON`, isFault: true };
  }
}

/** @param {number} count */
const eventsOf = (count) => (count === 1 ? "1 event" : `${count} events`);

/**
 * Shows each event of a subscription until it ends or is stopped. Returns what stops it. Bodies are undefined if nothing new arrives.
 * @param {Operation} operation
 * @param {(outcome: Outcome) => void} show
 * @param {() => void} onEnd
 */
export function subscribe({ headers, ...payload }, show, onEnd) {
  const url = new URL("/graphql", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const { authorization } = caller.headers();
  let count = 0;
  let isEnded = false;
  /** @param {string} summary @param {boolean} [isFault] */
  const say = (summary, isFault = false) => {
    if (!isEnded) show({ body: undefined, summary, isFault });
  };
  const client = createClient({
    url: url.href,
    connectionParams: { ...(authorization && { Authorization: authorization }), ...headers },
    retryAttempts: Number.POSITIVE_INFINITY,
    shouldRetry: () => true,
    on: {
      connected: () => say(count === 0 ? "Waiting for events." : `${eventsOf(count)}.`),
      closed: (event) => {
        const reason = (event instanceof CloseEvent && event.reason) || "The connection is lost";
        say(`${reason}: connecting again.`, true);
      },
    },
  });
  /** @param {Outcome} outcome */
  const end = (outcome) => {
    if (isEnded) return;
    show(outcome);
    isEnded = true;
    onEnd();
    void client.dispose();
  };
  client.subscribe(payload, {
    next: (body) => {
      count++;
      if (!isEnded) show({ body, summary: `${eventsOf(count)}.` });
    },
    error: (error) => {
      const body = Array.isArray(error) ? { errors: error } : undefined;
      end({ body, summary: body ? "The subscription is refused." : NO_RESPONSE, isFault: true });
    },
    complete: () => end({ body: undefined, summary: `The subscription has ended after ${eventsOf(count)}.` }),
  });
  return () => end({ body: undefined, summary: `Stopped after ${eventsOf(count)}.` });
}
