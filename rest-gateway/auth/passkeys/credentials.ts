import { z } from "zod";
import { named } from "../schemas.ts";

// The credentials of WebAuthn as browsers write them: `PublicKeyCredential.toJSON()`. Unknown fields are ignored.

/** Characters of a field; the certificates of an authenticator have a few thousand. */
const MAX_FIELD = 32_768;

const error = "must be the JSON of a credential, as navigator.credentials returns it";

/** Bytes in base64url. */
const bytes = (description: string) =>
  z
    .string({ error })
    .max(MAX_FIELD, { error })
    .regex(/^[\w-]+$/, { error })
    .meta({ description });

const credential = {
  id: bytes("The id of the credential."),
  rawId: bytes("The same."),
  type: z.enum(["public-key"], { error }),
};

/** What a passkey has signed. */
export const SignatureBody = named(
  "PasskeySignature",
  {
    ...credential,
    response: z.object(
      {
        clientDataJSON: bytes("The challenge and the origin of the page."),
        authenticatorData: bytes("The counter and the flags."),
        signature: bytes("The signature of both."),
        userHandle: bytes("The user whose passkey it is.").nullable().optional(),
      },
      error,
    ),
  },
  { error },
);

/** A passkey that was created. */
export const CredentialBody = named(
  "PasskeyCredential",
  {
    ...credential,
    response: z.object(
      {
        clientDataJSON: bytes("The challenge and the origin of the page."),
        attestationObject: bytes("The public key."),
        transports: z
          .array(z.string({ error }).max(50, { error }), { error })
          .max(10, { error })
          .default([])
          .meta({ description: "How a browser reaches the authenticator." }),
      },
      error,
    ),
  },
  { error },
);

export type PasskeySignature = z.infer<typeof SignatureBody>;
export type PasskeyCredential = z.infer<typeof CredentialBody>;
