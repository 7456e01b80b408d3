-- Asks whether this very connection still hears of news. Locks nothing.
SELECT FROM pg_listening_channels() AS channel WHERE channel = {channel_name};
