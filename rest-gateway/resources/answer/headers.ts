import type { Header, RestAnswer } from "../../conventions/endpoint.ts";
import type { ErrorDialect } from "../../conventions/problem.ts";
import type { Lifecycle } from "../../conventions/version.ts";
import type { Exchange } from "../prepare.ts";
import type { NamedDialect, Preferences } from "../request.ts";

/** Headers of every response to the request, whether it fails or not. */
export function headersOf(exchange: Exchange, lifecycle: Lifecycle, isProblem: boolean): Header[] {
  const { target } = exchange;
  const headers: Header[] = [];
  if (target) headers.push(["X-API-Version", String(target.chosen.version)]);
  const applied = appliedPreferences(exchange, isProblem);
  if (applied !== "") headers.push(["Preference-Applied", applied]);
  if (target && lifecycle.isDeprecated(target.chosen.version)) {
    const { path, prefix } = target.address;
    headers.push(...lifecycle.headers(path.slice(prefix.length)));
  }
  return headers;
}

type Applies = (exchange: Exchange, isProblem: boolean) => boolean;

/** Whether a dialect that the client names has an effect on the response. */
const APPLIES: Readonly<Record<NamedDialect, Applies>> = {
  detail: (_, isProblem) => isProblem,
  flat: ({ preferences }, isProblem) => isProblem && !preferences.dialects.has("detail"),
  envelope: ({ parsed }, isProblem) =>
    !isProblem && parsed?.operation.kind === "list" && parsed.operation.paging.form === "skip and limit",
  partial: ({ request }) => request.method === "PUT",
  case: ({ target }) => target?.chosen.version === 1,
  none: () => true,
};

/** The header Preference-Applied; "" for none. */
function appliedPreferences(exchange: Exchange, isProblem: boolean): string {
  const { named, handling } = exchange.preferences;
  const dialects = [...named].filter((name) => APPLIES[name](exchange, isProblem)).map((name) => `dialect=${name}`);
  return [...dialects, ...(handling === null ? [] : [`handling=${handling}`])].join(", ");
}

export function errorDialect({ dialects }: Preferences): ErrorDialect {
  if (dialects.has("detail")) return "detail";
  return dialects.has("flat") ? "flat" : "nested";
}

const OBJECT_END = 0x7d;

/** Adds the member `deprecation`, where the body is an object that could have one. */
export function withDeprecation(answer: RestAnswer, block: object): RestAnswer {
  const { body } = answer;
  if (body === null || body.at(-1) !== OBJECT_END) return answer;
  const isEmpty = body.toString().trim() === "{}";
  const member = `${isEmpty ? "" : ","}"deprecation":${JSON.stringify(block)}}`;
  return { ...answer, body: Buffer.concat([body.subarray(0, -1), Buffer.from(member)]) };
}
