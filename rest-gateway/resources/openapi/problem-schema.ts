import type { JsonSchema } from "../../openapi/document.ts";
import { arrayOf, objectOf } from "../../openapi/schema-parts.ts";

/** The body of every problem: as the convention has it, or in the form that `Prefer: dialect` asks for. */
export const problemSchema = (): JsonSchema => ({
  description: "What went wrong; the codes are explained at `/docs/errors`.",
  oneOf: [nestedProblem(), detailProblem(), flatProblem()],
});

const text: JsonSchema = { type: "string" };
const about = (description: string, schema: JsonSchema = text): JsonSchema => ({ ...schema, description });
const time = about("When it happened.", { type: "string", format: "date-time" });
const faults = arrayOf(
  objectOf({ field: about("Such as `email`, `tags[0]` or `[3].email`."), message: about("What is wrong with it.") }),
);
const code = about("For programs, such as `USER_NOT_FOUND`.");
const message = about("For people.");
const more = {
  supportedVersions: about("After a version that there is not.", arrayOf({ type: "integer" })),
  challenge: about("With `MFA_REQUIRED`: sent back with the code it completes the login."),
};

function nestedProblem(): JsonSchema {
  const error = objectOf({
    code,
    message,
    requestId: about("The same as `X-Request-Id`."),
    timestamp: time,
    documentation: about("Where the codes are explained."),
  });
  const told = {
    hint: about("What to do about it."),
    details: about("All that is wrong with fields.", faults),
    fields: about("The first message of each field.", { type: "object", additionalProperties: text }),
  };
  const whole = objectOf({
    error: { ...error, properties: { ...error.properties, ...told } },
    timestamp: time,
    status: about("That of the answer.", { type: "integer" }),
  });
  return {
    ...whole,
    properties: { ...whole.properties, errors: about("With 422: the same as `details`.", faults), ...more },
  };
}

function detailProblem(): JsonSchema {
  const whole = objectOf({ detail: objectOf({ code, message }) }, "With `Prefer: dialect=detail`.");
  return { ...whole, properties: { ...whole.properties, ...more } };
}

function flatProblem(): JsonSchema {
  const field = about("The first that is wrong.", { type: ["string", "null"] });
  const whole = objectOf({ error: code, message, field }, "With `Prefer: dialect=flat`.");
  return { ...whole, properties: { ...whole.properties, ...more } };
}
