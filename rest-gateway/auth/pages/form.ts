import { Html, html } from "../../../gate/pages/html.ts";
import { type Fault, Problem } from "../../../problems/problem.ts";
import type { Reason } from "../../../problems/reasons.ts";
import type { Auth } from "../auth.ts";
import { inOneSentence, MAX_PASSWORD } from "../passwords.ts";

/** A field of a form. Its name is that of the JSON body of the same request, so that an error finds its field. */
export type Field = {
  readonly name: string;
  readonly label: string;
  readonly type?: "email" | "password";
  /** What password managers and browsers fill in. */
  readonly autocomplete: string;
  readonly hint?: string;
  readonly maxlength?: number;
  readonly isOptional?: true;
  /** The texts to choose from, in place of a text that the user enters. */
  readonly options?: readonly string[];
  /** Whether it is for a code, which is not a word. */
  readonly isCode?: true;
  /** The value at first. */
  readonly value?: string;
};

/** What the user has sent, without passwords and codes, and what is wrong with it. */
export type FormState = {
  readonly status: number;
  readonly values: URLSearchParams | null;
  readonly faults: readonly Fault[];
  /** What is wrong, if it is in no field. */
  readonly problem: string | null;
  /** Seconds after which another attempt may succeed. */
  readonly retryAfter?: number | undefined;
};

/** The state of a form that nothing was sent from. */
export const NEW_FORM: FormState = { status: 200, values: null, faults: [], problem: null };

/** Faults of the service are not the user's: an error of 500 and more is thrown again, except that too many users are signing in. */
export function stateAfter(error: unknown, values: URLSearchParams): FormState {
  if (!(error instanceof Problem) || (error.status >= 500 && error.reason !== "busy")) throw error;
  const { status, reason, more } = error;
  const { retryAfter } = more;
  const text = TEXTS[reason];
  const faults = text === undefined ? (more.faults ?? []) : [];
  return { status, values, faults, problem: faults.length > 0 ? null : (text ?? error.message), retryAfter };
}

/** What an error of a JSON route means on a page. */
const TEXTS: Partial<Readonly<Record<Reason, string>>> = {
  "wrong password": "the username or the password is wrong",
  "second factor needed": "enter the code of your authenticator app too",
  "passkey refused at login": "the passkey was not accepted: try again, or sign in in another way",
  "passkey refused": "the passkey was not accepted: try again with one of your account",
  "wrong password or not confirmed":
    "the username or the password is wrong, or you have not used the link in the e-mail that confirms your address",
};

export type Form = {
  readonly action: string;
  readonly fields: readonly Field[];
  readonly hidden?: Readonly<Record<string, string | null>>;
  /** Null if markup has the button. */
  readonly button: string | null;
  /** Markup between the fields and the button. */
  readonly extra?: Html | null;
  /** Markup after the button. */
  readonly after?: Html | null;
  /** Whether the first field has the focus when the page is opened. */
  readonly isFocused?: boolean;
  /** The name of the account whose password the form has: password managers store it with the password. */
  readonly username?: string | null;
  /** Whether the button warns that it ends something. */
  readonly isDanger?: boolean;
};

/** A form. After a mistake, the first field to correct has the focus. */
export function formOf(form: Form, state: FormState = NEW_FORM): Html {
  const { action, fields, hidden = {}, button, extra = null, isFocused = false, isDanger = false } = form;
  const { username = null, after = null } = form;
  const known = new Set(fields.map(({ name }) => name));
  const others = state.faults.filter(({ field }) => !known.has(field)).map(({ message }) => message);
  const problems = [...(state.problem === null ? [] : [state.problem]), ...new Set(others)];
  const focus = focusOf(fields, state, isFocused);
  return html`<form method="post" action="${action}">
${problems.length === 0 ? null : alertOf(problems.map(sentence).join(" "), state.retryAfter)}
${Object.entries(hidden).map(([name, value]) => (value === null ? null : html`<input type="hidden" name="${name}" value="${value}">\n`))}
${
  username === null
    ? null
    : html`<input name="username" autocomplete="username" value="${username}" hidden>
`
}${fields.map((field) => inputOf(field, state, field.name === focus))}
${extra}
${button === null ? null : html`<button${new Html(isDanger ? ' class="danger"' : "")}>${button}</button>`}
${after}
</form>`;
}

/** After a mistake, passwords are empty, so the first one is what the user enters again. */
function focusOf(fields: readonly Field[], { faults, problem }: FormState, isFocused: boolean): string | null {
  const wrong = fields.find(({ name }) => faults.some(({ field }) => field === name));
  const empty = problem === null ? undefined : fields.find(({ type, isCode }) => type === "password" || isCode);
  return (wrong ?? empty ?? (isFocused || problem !== null ? fields[0] : undefined))?.name ?? null;
}

function inputOf(field: Field, { values, faults }: FormState, hasFocus: boolean): Html {
  const { name, label, type = "text", autocomplete, hint, maxlength = 254, isOptional, isCode } = field;
  const isSecret = type === "password" || isCode;
  const value = isSecret ? null : (values?.get(name) ?? field.value ?? null);
  const messages = faults.filter((fault) => fault.field === name).map(({ message }) => message);
  const ids = [...(messages.length > 0 ? [`${name}-fault`] : []), ...(hint ? [`${name}-hint`] : [])];
  const attributes = html`id="${name}" name="${name}" type="${type}" autocomplete="${autocomplete}" maxlength="${maxlength}"${
    value === null ? null : html` value="${value}"`
  }${isCode ? CODE : null}${isOptional ? null : REQUIRED}${messages.length > 0 ? INVALID : null}${
    ids.length === 0 ? null : html` aria-describedby="${ids.join(" ")}"`
  }${hasFocus ? FOCUSED : null}`;
  const control = field.options
    ? html`<select id="${name}" name="${name}">${field.options.map((text) => html`<option${new Html(text === value ? " selected" : "")}>${text}</option>`)}</select>`
    : html`<input ${attributes}>`;
  return html`<div class="field">
<label for="${name}">${label}</label>
${control}
${messages.length === 0 ? null : html`<p class="fault" id="${name}-fault">${faultText(field, messages)}</p>`}
${hint ? html`<p class="hint" id="${name}-hint">${hint}</p>` : null}
</div>
`;
}

const REQUIRED = new Html(" required");
const INVALID = new Html(' aria-invalid="true"');
const FOCUSED = new Html(" autofocus");
const CODE = new Html(' autocapitalize="characters" spellcheck="false"');

/** `["password must have a digit", "password must have an upper case letter"]` → `Password must have a digit and an upper case letter.` */
function faultText({ name, label }: Field, messages: readonly string[]): string {
  const bare = messages.map((message) => (message.startsWith(`${name} `) ? message.slice(name.length + 1) : message));
  if (!bare.every((message) => /^(is|must|has|may)\b/.test(message))) return messages.map(sentence).join(" ");
  return sentence(`${label} ${inOneSentence(bare)}`);
}

/** What is wrong, or what to know before the rest of the page. */
export const alertOf = (text: string, retryAfter?: number): Html =>
  html`<p class="alert" role="alert">${text}${retryAfter === undefined ? null : ` ${waitText(retryAfter)}`}</p>`;

function waitText(seconds: number): string {
  const minutes = Math.ceil(seconds / 60);
  return minutes <= 1 ? "Try again in a minute." : `Try again in ${minutes} minutes.`;
}

/** Messages of errors begin with a small letter and have no full stop. */
export const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`;

/** Fields that several forms have. */
export const NAME: Field = { name: "name", label: "Name", autocomplete: "name", maxlength: 200 };
export const newPasswordField = ({ passwordRules }: Auth, label = "Password"): Field => ({
  name: "password",
  label,
  type: "password",
  autocomplete: "new-password",
  maxlength: MAX_PASSWORD,
  hint: passwordRules.hint,
});
export const CODE_FIELD: Field = {
  name: "code",
  label: "Code of your authenticator app, or a backup code",
  autocomplete: "one-time-code",
  maxlength: 20,
  isCode: true,
};

/** The fields of a form by name, as a JSON body would have them. An empty one counts as absent. */
export const fieldsIn = (form: URLSearchParams): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries([...form].filter(([, value]) => value !== ""));
