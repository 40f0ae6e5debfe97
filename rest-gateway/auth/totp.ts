import { generateSecret, generateURI, verifySync } from "otplib/functional";

/** Seconds that a code is shown. SHA-1 and 6 digits, as all apps know them. Source: RFC 6238. */
const PERIOD = 30;
/** The code before and the one after are taken too: clocks differ, and people are slow. */
const DRIFT = PERIOD;

/** 160 random bits, in base32. */
export const newTotpSecret = (): string => generateSecret();

/**
 * Which 30 s the code is of, counted from 1970, when `now` is in them or in those beside them; null for a wrong code.
 * `now` in milliseconds. Whether that step was spent before the database knows.
 */
export function stepOf(secret: string, code: string, now: number): number | null {
  if (!isAppCode(code)) return null;
  const token = digitsOf(code);
  const epoch = Math.floor(now / 1000);
  const result = verifySync({ secret, token, epoch, period: PERIOD, epochTolerance: DRIFT });
  return result.valid && "timeStep" in result ? result.timeStep : null;
}

/** Whether it has the form of one. */
export const isAppCode = (code: string): boolean => /^[0-9]{6}$/.test(digitsOf(code));

/** Apps show `123 456`. */
const digitsOf = (code: string) => code.replace(/\s/g, "");

/** What the QR code says: `otpauth://totp/Content%20Service:ada?secret=…&issuer=Content%20Service` */
export const totpUri = (secret: string, issuer: string, account: string): string =>
  generateURI({ issuer, label: account, secret });
