// Types of files that `with { type: 'text' }` imports as text.
declare module 'htmx.org/dist/*' {
  const text: string
  export default text
}
declare module '*.mjs' {
  const text: string
  export default text
}
declare module '*.css' {
  const text: string
  export default text
}
declare module '*.svg' {
  const text: string
  export default text
}

// Preact's types include the DOM's types, which hide members that Bun adds. The interfaces below declare those members again.
interface ReadableStream<R> {
  text(): Promise<string>
}

interface Worker {
  unref(): void
}

// Path of a file that `with { type: 'file' }` embeds.
declare module '*.bin' {
  const path: string
  export default path
}
