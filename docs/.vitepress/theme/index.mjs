// The default theme with fonts of the reader's system: the content security policy of the dashboard allows no font files.
import theme from 'vitepress/theme-without-fonts'
import './site.css'

export default theme
