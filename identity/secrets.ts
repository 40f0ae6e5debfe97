import { hash, randomBytes } from "node:crypto";

/** `cs_user_…`: a key whose hash is in the database. */
const OPAQUE_KEY = /^cs_(?:user|anon|service)_[A-Za-z0-9_-]{32,128}$/;
/** Characters by which people recognize a key. */
const SHOWN = 6;
const SECRET_BYTES = 32;

export const isOpaqueKey = (text: string): boolean => text.startsWith("cs_") && OPAQUE_KEY.test(text);

/** `eyJ….….…`: a signed key. */
const SIGNED_KEY = /^eyJ[\w-]+\.[\w-]+\.[\w-]+$/;

/** Whether the text has the format of a key, valid or not. */
export const looksLikeKey = (text: string): boolean => isOpaqueKey(text) || SIGNED_KEY.test(text);

/** Secrets are long and random: a fast hash is enough for them. */
export const hashOf = (secret: string): Buffer => hash("sha256", secret, "buffer");

/** The hash in hex, which is the key of the caches. */
export const hexHashOf = (secret: string): string => hash("sha256", secret, "hex");

/** 256 random bits. */
export const newSecret = (): string => randomBytes(SECRET_BYTES).toString("base64url");

/** `{ key: "cs_user_Kq5s…", prefix: "cs_user_Kq5sNc" }` */
export function newKey(kind: "user" | "anon" | "service"): { readonly key: string; readonly prefix: string } {
  const start = `cs_${kind}_`;
  const key = `${start}${newSecret()}`;
  return { key, prefix: key.slice(0, start.length + SHOWN) };
}
