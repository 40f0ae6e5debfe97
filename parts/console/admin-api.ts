import { problem } from "../../problems/problem.ts";
import { FormFault } from "./caller-form.ts";
import { type ConsoleFile, SIGN_IN, type ViewInput } from "./console.ts";
import type { InProcessRequest, InProcessResponse } from "./in-process.ts";

/** Sends a request to the interfaces of the service with these headers. Null if the response takes too long. */
export type SendRequest = (request: InProcessRequest, from: ViewInput["request"]) => Promise<InProcessResponse | null>;

/** Why the service has refused a request of the operator. */
export class Refused extends FormFault {
  /** Where the operator signs in again, if the sign-in is too old; null for another reason. */
  readonly signIn: string | null;
  constructor(
    message: string,
    { signIn = null, field = null }: { signIn?: string | null; field?: string | null } = {},
  ) {
    super(message, field);
    this.signIn = signIn;
  }
}

type RefusedAnswer = {
  readonly code: string;
  readonly message: string;
  readonly details?: readonly { readonly field?: string }[];
};

type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** `/auth/admin/…`, as the operator uses it: with the credential of the sign-in to the console. */
export class AdminApi {
  readonly #send: SendRequest;
  readonly #input: Pick<ViewInput, "operator" | "request">;
  readonly #page: string;

  /** `page` is the path of the page that uses it. */
  constructor(send: SendRequest, input: Pick<ViewInput, "operator" | "request">, page: string) {
    this.#send = send;
    this.#input = input;
    this.#page = page;
  }

  /** The JSON of the response; null for one without a body. Rejects with Refused. */
  async call<Answer>(method: Method, path: string, body?: object): Promise<Answer> {
    const text = body === undefined ? "" : JSON.stringify(body);
    const headers = { ...(body && { "content-type": "application/json" }) };
    const response = await this.#responseTo({ method, path, headers, body: text });
    return response.body.length === 0 ? (null as Answer) : JSON.parse(response.body.toString());
  }

  /** The response as a file. Rejects with Refused. */
  async download(path: string, type: string, file: string): Promise<ConsoleFile> {
    const { body, isCut } = await this.#responseTo({ method: "GET", path, headers: { accept: type }, body: "" });
    if (isCut) throw new Refused("The export is too large: choose a shorter time.");
    return { file, type, body };
  }

  async #responseTo(request: InProcessRequest): Promise<InProcessResponse> {
    const { operator, request: from } = this.#input;
    const headers = { ...request.headers, ...operator.headers };
    const response = await this.#send({ ...request, headers }, from);
    if (response === null) throw problem("busy", { retryAfter: 1 });
    if (response.status < 400) return response;
    const { error } = JSON.parse(response.body.toString()) as { error: RefusedAnswer };
    const message = `${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`;
    const mustSignIn = error.code === "PASSWORD_REQUIRED";
    throw new Refused(message, {
      signIn: mustSignIn ? `${SIGN_IN}?next=${encodeURIComponent(this.#page)}` : null,
      field: error.details?.[0]?.field ?? null,
    });
  }
}
