<!doctype html>
<html <?php language_attributes(); ?>>
<head><?php wp_head(); ?></head>
<body><?php wp_footer(); ?></body>
</html>
