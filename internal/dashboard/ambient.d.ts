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

// Declares members that Bun adds to types of the DOM. The DOM's types, which Preact's types include, would otherwise hide these members.
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
