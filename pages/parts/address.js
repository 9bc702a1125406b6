(() => {
  const page = PAGE, path = location.pathname;
  if (!path.endsWith(page)) return;
  window.__streamlit = {BACKEND_BASE_URL: location.origin + path.slice(0, path.length - page.length)};
  if (/(^|; )_streamlit_xsrf=/.test(document.cookie))
    window.__streamlit.HOST_CONFIG = {allowedOrigins: [location.origin], useExternalAuthToken: false};
})();
