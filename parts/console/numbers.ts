const NUMBER = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];

/** `1536` → `1.5 KiB` */
export function sizeText(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 1024 ** power).toLocaleString("en", { maximumFractionDigits: 1 })} ${UNITS[power]}`;
}

export const countText = (count: number): string => NUMBER.format(count);
