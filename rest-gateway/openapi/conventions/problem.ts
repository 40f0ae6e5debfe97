import type { JsonSchema } from "../document.ts";
import { arrayOf, objectOf, textOf, timeOf, withOptional } from "../schema-parts.ts";

const CODE = textOf("For programs, such as `USER_NOT_FOUND`.");
const MESSAGE = textOf("For people.");

const FAULTS = arrayOf(
  objectOf({ field: textOf("Such as `email`, `tags[0]` or `[3].email`."), message: textOf("The fault.") }),
);

const ERROR = withOptional(
  objectOf({
    code: CODE,
    message: MESSAGE,
    requestId: textOf("The same as `X-Request-Id`."),
    timestamp: timeOf("When it happened."),
    documentation: textOf("Where the codes are explained."),
  }),
  {
    hint: textOf("What to do."),
    details: { ...FAULTS, description: "Every fault of a field." },
    fields: {
      type: "object",
      additionalProperties: { type: "string" },
      description: "The first message of each field.",
    },
  },
);

const NESTED = withOptional(
  objectOf({
    error: ERROR,
    timestamp: timeOf("When it happened."),
    status: { type: "integer", description: "The status of the response." },
  }),
  { errors: { ...FAULTS, description: "With 422: the same as `details`." } },
);

const DETAIL = objectOf({ detail: objectOf({ code: CODE, message: MESSAGE }) }, "With `Prefer: dialect=detail`.");

const FLAT = objectOf(
  {
    error: CODE,
    message: MESSAGE,
    field: { type: ["string", "null"], description: "The first field with a fault." },
  },
  "With `Prefer: dialect=flat`.",
);

/** Members of some problems, in every form. */
const MEMBERS: Readonly<Record<string, JsonSchema>> = {
  supportedVersions: { ...arrayOf({ type: "integer" }), description: "If the version is not supported." },
  challenge: textOf("With `MFA_REQUIRED`: send it with the code to complete the login."),
};

/** The body of every problem: the form of the convention, or one that `Prefer: dialect` chooses. */
export const PROBLEM_SCHEMA: JsonSchema = {
  description: "The error. `/docs/errors` explains the codes.",
  oneOf: [NESTED, DETAIL, FLAT].map((form) => withOptional(form, MEMBERS)),
};
