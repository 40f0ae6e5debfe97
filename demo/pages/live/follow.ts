import { keepFollowing } from "./following.ts";
import { API, onUser, request } from "./session.ts";
import { socket } from "./socket.ts";

type Errors = readonly { readonly message: string; readonly extensions?: { readonly code?: unknown } }[];
type Answer<Data> = {
  readonly data?: Data | null;
  readonly errors?: Errors;
  readonly extensions?: { readonly changePosition?: string };
};
type Result<Data> = { readonly data: Data; readonly position: string | undefined };
/** What the service has refused. `faultsOf` in errors.md has its invalid fields. */
const refusal = (errors: Errors): Error => Object.assign(new Error(errors[0]?.message), { errors });

/** The data of a query or a mutation, and the position of the change up to which a query has read. */
export async function graphql<Data>(query: string, variables: object): Promise<Result<Data>> {
  const body = JSON.stringify({ query, variables, extensions: { changePosition: true } });
  const headers = { "Content-Type": "application/json" };
  const response = await request(`${API}/graphql`, { method: "POST", headers, body });
  // A proxy whose service is down answers with HTML, or nothing.
  const { data, errors, extensions }: Answer<Data> = await response.json().catch(() => ({}));
  if (errors) throw refusal(errors);
  if (!data) throw new Error(`The service cannot be reached (status ${response.status}).`);
  return { data, position: extensions?.changePosition };
}

type Followed<Read, Event> = {
  readonly query: string;
  readonly subscription: string;
  /** Of both. */
  readonly variables: Record<string, unknown>;
  /** Replaces what is shown: at the start, if changes were missed, and with null when the user has changed. */
  onRead(data: Read | null): void;
  onEvent(event: Event): void;
  /** Called with undefined when that has passed. */
  onError(error: unknown): void;
};

/** Reads, and then follows every later change, also after a lost connection. Returns a function that ends this. */
export function follow<Read, Event>(followed: Followed<Read, Event>): () => void {
  const { query, subscription, variables, onRead, onEvent, onError } = followed;
  // graphql-ws sends this object again when it is connected again: the subscription continues after the last event.
  const payload = { query: subscription, variables, extensions: { after: undefined as string | undefined } };
  let user = {};

  async function read(): Promise<unknown> {
    const asked = user;
    const { data, position } = await graphql<Read>(query, variables);
    if (asked !== user) return undefined;
    onRead(data);
    payload.extensions.after = position;
    const isFound = Object.values(data as object).some((found) => found !== null);
    return isFound ? position : null;
  }

  const listen = (onEnd: (error: unknown, code: unknown) => void): (() => void) =>
    socket.subscribe<Event, { changePosition?: string }>(payload, {
      next({ data, errors, extensions }) {
        payload.extensions.after = extensions?.changePosition;
        if (errors) onError(refusal(errors));
        else if (data) onEvent(data);
      },
      error: (error) =>
        Array.isArray(error) ? onEnd(refusal(error), error[0]?.extensions?.code) : onEnd(error, undefined),
      complete() {},
    });

  const forget = onUser(() => {
    user = {};
    onRead(null);
  });
  const stop = keepFollowing({ read, listen, onError });
  return () => {
    user = {};
    forget();
    stop();
  };
}
