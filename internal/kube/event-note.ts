/** The API's own bound. */
const noteBytesMax = 1024

const secretShapes: readonly RegExp[] = [
  /-----BEGIN [A-Z ]+-----[\s\S]*?(-----END [A-Z ]+-----|$)/g,
  /\b(?:Bearer|Basic)\s+[^\s,;]+/gi,
  /\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g,
  /\b(?:lk|whsec|sk|rk|shpss|shpat|ghp|ghs|github_pat)_[\w+/=-]{8,}/g,
  /(?<=\/\/)[^/\s:@]*:[^/\s@]+(?=@)/g,
]

/**
 * A text for people that is fit to be shown to everybody: what has the shape of a secret is masked, and it is cut to 1 024
 * bytes. The last line of defence: whoever writes a note must not put a value of a Secret into it.
 */
export function cleanNote(note: string): string {
  const masked = secretShapes.reduce((text, shape) => text.replace(shape, '[secret]'), note)
  if (Buffer.byteLength(masked) <= noteBytesMax) return masked
  const { read } = new TextEncoder().encodeInto(masked, new Uint8Array(noteBytesMax - 3))
  return `${masked.slice(0, read)}…`
}
