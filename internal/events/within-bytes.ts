/** Returns the first events, up to the maximum bytes of payloads, but at least one. Pure. */
export function withinBytes<Event extends { readonly payloadBytes: number }>(
  events: readonly Event[],
  bytesMax: number,
): readonly Event[] {
  let bytes = 0
  const end = events.findIndex(({ payloadBytes }, at) => {
    bytes += payloadBytes
    return bytes > bytesMax && at > 0
  })
  return end < 0 ? events : events.slice(0, end)
}
