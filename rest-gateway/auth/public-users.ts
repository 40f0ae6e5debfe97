/** A user as the wire shows it. */
export type PublicUser = {
  readonly id: string;
  readonly email: string;
  readonly created_at: string;
  readonly email_confirmed_at?: string;
  readonly app_metadata: Readonly<Record<string, unknown>>;
  readonly user_metadata: Readonly<Record<string, unknown>>;
  readonly is_anonymous: boolean;
  readonly factors?: readonly PublicFactor[];
  readonly [field: string]: unknown;
};

export type PublicFactor = {
  readonly id: string;
  readonly friendly_name: string;
  readonly factor_type: "totp" | "webauthn";
  readonly status: "verified" | "unverified";
};

/** `id` is that of the application, as text. */
export type Found = { readonly id: string; readonly user: PublicUser };
