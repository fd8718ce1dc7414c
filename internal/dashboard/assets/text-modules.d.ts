// What `with { type: 'text' }` gives of files that TypeScript would read as programs.
declare module 'htmx.org/dist/htmx.min.js' {
  const text: string
  export default text
}
declare module 'htmx.org/dist/ext/hx-sse.min.js' {
  const text: string
  export default text
}
declare module '*/browser.mjs' {
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
