import { field, MAX_TOKEN, PASSWORD_IF_OLD, PROOF_IF_ENABLED, secret, text } from "../../rest-gateway/auth/bodies.ts";
import { named } from "../../rest-gateway/auth/schemas.ts";

const signInCode = {
  signInCode: text(MAX_TOKEN, secret("The parameter `sign_in_code` of the URL at which the sign-in has continued.")),
  codeVerifier: field(
    (value) => /^[\w.~-]{43,128}$/.test(value),
    "must have 43 to 128 letters, digits, -, ., _ and ~",
    {
      ...secret("The text whose SHA-256 was sent as `code_challenge`."),
      minLength: 43,
      maxLength: 128,
    },
  ),
};

export const SignInCodeBody = named("SignInCode", signInCode);

export const LinkBody = named("IdentityLink", { ...signInCode, password: PASSWORD_IF_OLD, ...PROOF_IF_ENABLED });
