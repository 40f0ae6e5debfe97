import { generateSecret, generateURI, verifySync } from "otplib/functional";

/** Seconds for which an app shows a code. Like SHA-1 and 6 digits, all apps support it. Source: RFC 6238. */
const PERIOD = 30;
/** The previous and the next code are accepted too: clocks differ, and typing takes time. */
const DRIFT = PERIOD;

/** 160 random bits, in base32. */
export const newTotpSecret = (): string => generateSecret();

/**
 * The time step of a code: the number of 30 s periods since 1970. Null for a wrong code; `now` is milliseconds. The database
 * decides whether the step was already spent.
 */
export function stepOf(secret: string, code: string, now: number): number | null {
  if (!isAppCode(code)) return null;
  const token = digitsOf(code);
  const epoch = Math.floor(now / 1000);
  const result = verifySync({ secret, token, epoch, period: PERIOD, epochTolerance: DRIFT });
  return result.valid && "timeStep" in result ? result.timeStep : null;
}

/** Whether the text has the form of a code. */
export const isAppCode = (code: string): boolean => /^[0-9]{6}$/.test(digitsOf(code));

/** Apps show codes as `123 456`. */
const digitsOf = (code: string) => code.replace(/\s/g, "");

/** The content of the QR code: `otpauth://totp/Content%20Service:ada?secret=…&issuer=Content%20Service` */
export const totpUri = (secret: string, issuer: string, account: string): string =>
  generateURI({ issuer, label: account, secret });
