/** Writes a POST as a curl command for a POSIX shell, which passes every text to curl unchanged. Pure. */
export function curlCommand({
  url,
  headers,
  body,
}: {
  readonly url: string
  readonly headers: Iterable<readonly [name: string, value: string]>
  /** Undefined for a body that the reader of the command provides in the file `event.json`. */
  readonly body: string | undefined
}): string {
  // The body is piped, since the length of an argument is limited. printf is part of the shell, and so has no such limit.
  const piped = body === undefined ? '' : `printf %s ${quoted(body)} | `
  return [
    // Without -g, curl expands brackets and braces of the URL.
    `${piped}curl -sS -i -g -X POST ${quoted(url)} \\`,
    ...[...headers].map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)} \\`),
    `  --data-binary @${body === undefined ? 'event.json' : '-'}`,
  ].join('\n')
}

/** Quotes a word for a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
