import type { Exchange } from "../exchange.ts";
import type { Named } from "../parse/preferences.ts";

type Applies = (exchange: Exchange, isProblem: boolean) => boolean;

/** Where a dialect that the client names has a say in the answer. */
const APPLIES: Readonly<Record<Named, Applies>> = {
  detail: (_, isProblem) => isProblem,
  flat: ({ preferences }, isProblem) => isProblem && !preferences.dialects.has("detail"),
  envelope: ({ parsed }, isProblem) =>
    !isProblem && parsed?.operation.kind === "list" && parsed.operation.paging.form === "skip and limit",
  partial: ({ request }) => request.method === "PUT",
  case: ({ chosen }) => chosen?.version === 1,
  none: () => true,
};

/** The header Preference-Applied; "" for none. */
export function appliedPreferences(exchange: Exchange, isProblem: boolean): string {
  const { named, handling } = exchange.preferences;
  const dialects = [...named].filter((name) => APPLIES[name](exchange, isProblem)).map((name) => `dialect=${name}`);
  return [...dialects, ...(handling === null ? [] : [`handling=${handling}`])].join(", ");
}
