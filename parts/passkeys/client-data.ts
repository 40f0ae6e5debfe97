/** What the browser says about a credential. `crossOrigin` is true in a frame of another site. */
type ClientData = {
  readonly challenge: string;
  readonly origin: string;
  readonly crossOrigin: boolean;
};

/** Null if it is not well formed. */
export function clientDataOf({ clientDataJSON }: { readonly clientDataJSON: string }): ClientData | null {
  try {
    const { challenge, origin, crossOrigin } = JSON.parse(Buffer.from(clientDataJSON, "base64url").toString());
    const isClientData = typeof challenge === "string" && typeof origin === "string";
    return isClientData ? { challenge, origin, crossOrigin: crossOrigin === true } : null;
  } catch {
    return null;
  }
}
